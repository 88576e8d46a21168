//! The names of environment variables that a run can be given, and those that it is never given.

/// Maximum bytes of a name.
const MAX_NAME_BYTES: usize = 256;

/// Names that no run is given, and why.
struct RefusedNames {
    /// Whole names between spaces, where a `*` stands for any text. See `fits` for their case.
    names: &'static str,
    /// What they do: the rest of a sentence that begins with the name.
    effect: &'static str,
}

/// A value may come from a file of the project, and a name from a skill: neither may decide which code runs, or whom programs trust.
/// The list cannot be complete, since each program has names of its own: it has what widespread tools read, by form where there is one.
/// Names that say what to talk to, such as proxies and certificates, can be given by a person; the command takes them from no file.
const REFUSED_NAMES: [RefusedNames; 24] = [
    RefusedNames {
        names: "LD_* DYLD_* LIBPATH SHLIB_PATH *_LD_LIBRARY_PATH *_PRELOAD GLIBC_TUNABLES GCONV_PATH \
                GETCONF_DIR LOCPATH NLSPATH MALLOC_*",
        effect: "decides what the system's loader and C library load, or how they work",
    },
    RefusedNames {
        names: "RES_OPTIONS LOCALDOMAIN HOSTALIASES RESOLV_*",
        effect: "changes which machine the name of a host means",
    },
    RefusedNames {
        names: "PATH SHELL EDITOR *_EDITOR VISUAL PAGER *_PAGER BROWSER *_BROWSER *_ASKPASS \
                SSH_ASKPASS_REQUIRE LESS LESSOPEN LESSCLOSE LESSEDIT LESSKEY* MANPAGER MANOPT FCEDIT \
                HGEDITOR COMSPEC RSYNC_RSH RSYNC_CONNECT_PROG CVS_RSH SVN_SSH RSH SSH_SK_HELPER \
                SSH_SK_PROVIDER SSH_PKCS11_HELPER TAR_OPTIONS ZIPOPT PARALLEL CHROME_PATH CHROME_BIN \
                *_EXECUTABLE_PATH *_BINARY_PATH *_BINARY_HOST PROTOC *_COMMAND *_COMMAND_PREFIX *PASSCOMMAND \
                *_PASSWORD_CMD *_PASSWORD_PROGRAM *_RSH *_PROG *_SFTP_SSH *_METADATA_MAPPER *_EXTERNAL_DIFF \
                *_NODEJS_PATH *_INTERPRETER *_PYTHON BORG_REMOTE_PATH TERRAGRUNT_TFPATH TG_TF_PATH GVBINDIR \
                GROFF_* MANROFFSEQ NROFF TROFF DBUS_*_BUS_ADDRESS MAILCAPS WINELOADER WINESERVER WINEDLL* WINEPREFIX WINEPATH \
                PARALLEL_SHELL *_EXE *_PANDOC FFMPEG_BINARY IMAGEMAGICK_BINARY CHROMEDRIVER_PATH CHROMIUM_BIN FIREFOX_BIN \
                GRAPHVIZ_DOT P4EDITOR P4DIFF CVSEDITOR RCLONE_CONFIG_*_SSH LIBGUESTFS_* CHROM*_FLAGS \
                GUNICORN_CMD_ARGS TERMINAL R_*CMD R_PDFVIEWER",
        effect: "decides which programs are started",
    },
    RefusedNames {
        names: "BASH_* BASHOPTS SHELLOPTS ENV KSH_ENV IFS CDPATH GLOBIGNORE EXECIGNORE PS0 PS1 PS2 PS3 \
                PS4 PROMPT_COMMAND FPATH ZDOTDIR MODULE_PATH INPUTRC POSIXLY_CORRECT PWD OLDPWD \
                fish_function_path fish_complete_path fish_user_paths \
                __fish_* SCREENRC SYSSCREENRC",
        effect: "changes what a shell runs",
    },
    RefusedNames {
        names: "VIMINIT EXINIT MYVIMRC VIM VIMRUNTIME NVIM_* EMACSLOADPATH EMACSPATH EMACSDATA",
        effect: "changes what an editor runs",
    },
    RefusedNames {
        names: "PYTHON* PYTEST_ADDOPTS PYTEST_PLUGINS COVERAGE_PROCESS_START IPYTHONDIR \
                JUPYTER_CONFIG_* JUPYTER_PATH PYLINTRC PYLINTHOME MYPYPATH MPLBACKEND MATPLOTLIBRC \
                CLOUDSDK_CONFIG CLOUDSDK_PYTHON* BOTO_CONFIG BOTO_PATH PRE_COMMIT_HOME",
        effect: "changes what Python loads, or how it runs",
    },
    RefusedNames {
        names: "NODE_OPTIONS NODE_PATH NODE_REPL_* NODE_V8_COVERAGE NODE_COMPILE_CACHE \
                NODE_TLS_REJECT_UNAUTHORIZED BUN_* DENO_DIR DENO_V8_FLAGS TSX_* TS_NODE_* ELECTRON_*",
        effect: "changes what JavaScript loads, or how it runs",
    },
    RefusedNames {
        names: "NPM_CONFIG_* COREPACK_* PNPM_* YARN_* PIP_* PIPX_* PIPENV_* UV_* PDM_* \
                CONDA_* MAMBA_* VIRTUAL_ENV COMPOSER COMPOSER_HOME COMPOSER_VENDOR_DIR \
                COMPOSER_BIN_DIR NUGET_PACKAGES NUGET_PLUGIN_PATHS NUGET_NETCORE_PLUGIN_PATHS PUB_CACHE PUB_HOSTED_URL HEX_HOME HEX_MIRROR* OPAM*",
        effect: "decides which packages are installed and loaded",
    },
    RefusedNames {
        names: "ASDF_* DIRENV_* MISE_* NODENV_* NVM_* PYENV_* RBENV_* RTX_* RUSTUP_* SDKMAN_* VOLTA_*",
        effect: "decides which version of a tool runs",
    },
    RefusedNames {
        names: "PERL* HARNESS_PERL* HARNESS_OPTIONS HARNESS_SUBCLASS ACKRC",
        effect: "changes what Perl loads, or how it runs",
    },
    RefusedNames {
        names: "RUBY* GEM_* BUNDLE_* RAKEOPT RAKELIB IRBRC PRYRC",
        effect: "changes what Ruby loads, or how it runs",
    },
    RefusedNames {
        names: "JAVA_TOOL_OPTIONS *_JAVA_OPTIONS JDK_JAVA_OPTIONS JAVA_OPTS *_JAVA_OPTS JAVA_ARGS \
                JAVACMD JVM_OPTS JAVA_HOME JDK_HOME CLASSPATH MAVEN_OPTS MAVEN_ARGS MAVEN_HOME MAVEN_CONFIG MAVEN_DEBUG_OPTS M2_HOME GRADLE_OPTS GRADLE_HOME \
                GRADLE_USER_HOME ANT_OPTS ANT_ARGS ANT_HOME SBT_OPTS CATALINA_OPTS LEIN_*",
        effect: "changes what Java loads, or how it runs",
    },
    RefusedNames {
        names: "DOTNET_STARTUP_HOOKS DOTNET_ADDITIONAL_DEPS DOTNET_SHARED_STORE DOTNET_ROOT* \
                DOTNET_HOST_PATH DOTNET_EnableDiagnostics* DOTNET_gcServer* COMPlus_* CORECLR_* COR_* \
                MSBUILD* CustomBefore* CustomAfter* DirectoryBuild*",
        effect: "changes what .NET loads, or how it runs",
    },
    RefusedNames {
        names: "PHPRC PHP_INI_SCAN_DIR LUA_PATH* LUA_CPATH* LUA_INIT* R_HOME R_LIBS* R_PROFILE* \
                R_ENVIRON* PSModulePath AWKPATH AWKLIBPATH TCLLIBPATH TCL_LIBRARY TK_LIBRARY ERL_* \
                ELIXIR_ERL_OPTIONS MIX_HOME MIX_ARCHIVES MIX_EXS OCAMLPATH OCAMLLIB CAML* \
                GHC_PACKAGE_PATH GHC_ENVIRONMENT GUILE_* JULIA_LOAD_PATH JULIA_DEPOT_PATH \
                JULIA_PROJECT JULIA_BINDIR GS_LIB GS_OPTIONS TEXINPUTS* TEXMF* M4PATH \
                R_DEFAULT_PACKAGES GHCRTS STACK_ROOT STACK_YAML CABAL_DIR CABAL_CONFIG REBAR_* OCTAVE_* MATLABPATH \
                URE_* UNO_PATH",
        effect: "changes what an interpreter loads",
    },
    RefusedNames {
        names: "GOFLAGS GOROOT GOPATH GOBIN GOENV GOPROXY GOSUMDB GONOSUMDB GONOSUMCHECK GOINSECURE \
                GOPRIVATE GONOPROXY GOTOOLCHAIN GOTOOLDIR GOVCS GOAUTH GOCACHEPROG GOWORK CGO_* RUSTC* \
                RUSTDOC* RUSTFMT *RUSTFLAGS *_WRAPPER CARGO CARGO_HOME CARGO_ALIAS_* \
                CARGO_BUILD_RUSTC* CARGO_BUILD_RUSTDOC* CARGO_HOST_* CARGO_TARGET_*_LINKER \
                CARGO_TARGET_*_RUNNER CARGO_SOURCE_* CARGO_REGISTRY_DEFAULT CARGO_REGISTRIES_*_INDEX \
                CARGO_*CREDENTIAL_PROVIDER* CARGO_CREDENTIAL_ALIAS_* CARGO_UNSTABLE_* \
                CARGO_PROFILE_*_CODEGEN_BACKEND *MAKEFLAGS MFLAGS MAKEFILES MAKE MAKEOVERRIDES CC CC_* \
                CXX CXX_* CPP LD AR AR_* AS NM RANLIB FC HOST_CC HOST_CXX HOST_AR TARGET_CC TARGET_CXX \
                TARGET_AR *CFLAGS *CXXFLAGS *CPPFLAGS *LDFLAGS CFLAGS_* CXXFLAGS_* NVCC_* GCC_* \
                COLLECT_* COMPILER_PATH LIBRARY_PATH CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH \
                OBJC_INCLUDE_PATH CCACHE_* DISTCC_* ICECC_* CMAKE_* PKG_CONFIG* ACLOCAL* AUTOM4TE* \
                LIBCLANG_PATH LLVM_CONFIG* SWIFT_EXEC TOOLCHAINS DEVELOPER_DIR SDKROOT NIX_PATH \
                NIX_CONFIG NIX_CONF_DIR NIX_USER_CONF_FILES NIX_BUILD_SHELL NIX_LD* NIX_REMOTE \
                NIX_SSHOPTS ZIG_LIB_DIR BAZELISK_* USE_BAZEL_VERSION VCPKG_* SCONS_LIB_DIR \
                VAGRANT_HOME VAGRANT_CWD VAGRANT_VAGRANTFILE VAGRANT_DOTFILE_PATH APT_CONFIG \
                KBUILD_* CROSS_COMPILE CCC_* MESON_* DFLAGS",
        effect: "changes what a build runs",
    },
    RefusedNames {
        // The variables of make's own rules, and what `configure` reads.
        names: "RM CO GET LEX YACC LINT MAKEINFO TEX TEXI2DVI WEAVE CWEAVE TANGLE CTANGLE OBJC F77 M2C PC VPATH \
                LDLIBS LOADLIBES LIBS TARGET_ARCH TARGET_MACH OUTPUT_OPTION ARFLAGS ASFLAGS COFLAGS FFLAGS FCFLAGS \
                GFLAGS LFLAGS YFLAGS PFLAGS RFLAGS M2FLAGS MODFLAGS DEFFLAGS LINTFLAGS SCONSFLAGS CONFIG_SITE \
                CONFIG_SHELL CCLD HOSTCC HOSTCXX LINK LINKER INSTALL LIBTOOL* STRIP OBJCOPY OBJDUMP READELF WINDRES \
                DLLTOOL LN_S MKDIR_P SED GREP EGREP FGREP AWK ac_cv_* lt_cv_* am_cv_* CC_LD CXX_LD AUTOCONF \
                AUTOHEADER AUTOMAKE AUTORECONF LDSHARED",
        effect: "changes what make or configure runs",
    },
    RefusedNames { names: "*OPTS", effect: "gives a program options, which may run others" },
    RefusedNames { names: "GIT_*", effect: "changes what git runs, and on which repository" },
    RefusedNames {
        names: "HGRCPATH HGMERGE HGPLAIN* HG",
        effect: "changes what a version control system runs",
    },
    RefusedNames {
        names: "GTK_MODULES GTK3_MODULES GTK_PATH GTK_EXE_PREFIX GTK_IM_MODULE_FILE GDK_PIXBUF_MODULE* \
                GIO_EXTRA_MODULES GIO_MODULE_DIR GST_PLUGIN_* GST_REGISTRY* QT_PLUGIN_PATH \
                QT_QPA_PLATFORM_PLUGIN_PATH QML_IMPORT_PATH QML2_IMPORT_PATH *_PLUGIN_PATH \
                *_PLUGIN_DIR *_PLUGIN_DIRS *_PLUGIN_PATHS *_PLUGIN_HOME *_PLUGINS *_PLUGINS_DIR *_PLUGINS_PATH \
                *_PLUGINS_HOME *_MODULE_PATH *_MODULES_PATH *_MODULE_DIR *_MODULES_DIR *_LIBRARY_PATH \
                *_ENGINE_LIBRARY *_ENGINE_BINARY *_DRIVER_DIR *_DRIVER_PATH *_DRIVERS_PATH *_EXTENSION_DIR \
                *_EXTENSIONS_DIR *_PKCS11_MODULE P11_KIT_* AZURE_CONFIG_DIR GNUPLOT_LIB DOCKER_CLI_PLUGIN_EXTRA_DIRS \
                FREI0R_PATH LADSPA_PATH LV2_PATH DSSI_PATH VST_PATH VST3_PATH ALSA_CONFIG_* QEMU_LD_PREFIX SDL_DYNAMIC_API SDL3_DYNAMIC_API LIBGL_DRIVERS_PATH \
                GBM_BACKENDS_PATH LIBVA_DRIVERS_PATH \
                VK_ICD_* VK_DRIVER_* VK_ADD_* VK_LAYER_* VK_INSTANCE_LAYERS VK_LOADER_* __GLX_* __EGL_* OCL_ICD_* MAGICK_* GEGL_PATH \
                BABL_PATH OMPI_* PMIX_* SASL_PATH KRB5_CONFIG ODBCINI ODBCINSTINI ODBCSYSINI \
                LIBMYSQL_* PSQLRC VALGRIND_* *SAN_OPTIONS *_SYMBOLIZER_PATH",
        effect: "decides which modules a program loads",
    },
    RefusedNames {
        names: "WGETRC SYSTEM_WGETRC CURL_HOME RIPGREP_CONFIG_PATH FZF_* BAT_CONFIG_PATH ANSIBLE_* \
                TF_CLI_* TF_DATA_DIR TF_PLUGIN_CACHE_DIR HELM_PLUGINS PACKER_CONFIG GH_CONFIG_DIR \
                GNUPGHOME PASSWORD_STORE_* GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES",
        effect: "names the settings of a program that runs others by them",
    },
    RefusedNames {
        names: "OPENSSL_CONF OPENSSL_MODULES OPENSSL_ENGINES SSLKEYLOGFILE",
        effect: "changes what the libraries for encryption load, or writes their keys down",
    },
    RefusedNames {
        names: "HOME TMPDIR TMP TEMP XDG_*",
        effect: "names a folder that metier makes for each run",
    },
    RefusedNames { names: "METIER_*", effect: "is one of metier's own" },
];

/// Names that would be refused by a form of several, and do nothing of the kind.
const ALLOWED_NAMES: [&str; 6] = [
    "GIT_AUTHOR_DATE",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_DATE",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
];

/// Parts of names whose values are secret, in capitals.
const SECRET_WORDS: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL"];

/// Fails with the reason if no run is given a variable of this name.
pub fn check_variable_name(name: &str) -> Result<(), String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_name = name.bytes().all(is_part) && name.starts_with(|first: char| !first.is_ascii_digit());
    if !is_name || name.len() > MAX_NAME_BYTES {
        return Err("the name of a variable has letters, digits and `_`, and begins with no digit".into());
    }
    check_allowed_name(name)
}

/// Fails with the reason if this is one of the names that no run is given.
pub fn check_allowed_name(name: &str) -> Result<(), String> {
    if ALLOWED_NAMES.contains(&name) {
        return Ok(());
    }
    match REFUSED_NAMES.iter().find(|refused| refused.names.split(' ').any(|known| fits(known, name))) {
        Some(refused) => Err(format!("{name} {}, so no run is given it", refused.effect)),
        None => Ok(()),
    }
}

/// Whether the name says that its value is secret.
pub fn is_secret_variable(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Whether the name of a setting says that its value is secret. Settings have names such as `sort_key` and `max_tokens`, so here whole words
/// count: `apiKey`, `github_token` and `db-password` are secret.
pub fn is_secret_setting(name: &str) -> bool {
    let words = words(name);
    let is_secret = |at: usize, word: &str| match word {
        "apikey" | "accesskey" | "authtoken" | "credential" | "credentials" | "passphrase" | "passwd"
        | "password" | "passwords" | "privatekey" | "pwd" | "secret" | "secretkey" | "secrets" => true,
        "pass" | "token" => words.get(at + 1).is_none_or(|next| !FACTS_OF_TOKENS.contains(&next.as_str())),
        "key" => at > 0 && KINDS_OF_KEYS.contains(&words[at - 1].as_str()),
        _ => false,
    };
    words.iter().enumerate().any(|(at, word)| is_secret(at, word))
}

/// What follows in names such as `token_limit` and `pass_count`, whose values are no secrets.
const FACTS_OF_TOKENS: [&str; 16] = [
    "budget", "count", "endpoint", "file", "length", "limit", "limits", "name", "path", "rate", "size",
    "type", "uri", "url", "usage", "window",
];

/// What makes a key a secret one.
const KINDS_OF_KEYS: [&str; 10] =
    ["access", "account", "api", "auth", "encryption", "private", "secret", "service", "signing", "ssh"];

/// The words of a name, in small letters: `apiKey`, `API_KEY` and `api-key` have the same.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = None::<char>;
    for c in name.chars() {
        let begins_word = !before.is_some_and(char::is_alphanumeric)
            || c.is_uppercase()
                && before.is_some_and(|before| before.is_lowercase() || before.is_ascii_digit());
        if c.is_alphanumeric() {
            match words.last_mut().filter(|_| !begins_word) {
                Some(word) => word.extend(c.to_lowercase()),
                None => words.push(c.to_lowercase().collect()),
            }
        }
        before = Some(c);
    }
    words
}

/// Whether a name is this one, where a `*` stands for any text. Programs that read many names, such as npm and Yarn, often
/// do so in any case; the case counts only of a single word, such as `ENV` or `RM`, which shells and make read as it is.
fn fits(known: &str, name: &str) -> bool {
    if known.contains(['*', '_']) { fits_form(known.as_bytes(), name.as_bytes()) } else { name == known }
}

/// The same in any case.
fn fits_form(known: &[u8], name: &[u8]) -> bool {
    let Some(length) = known.iter().position(|byte| *byte == b'*') else {
        return known.eq_ignore_ascii_case(name);
    };
    let (start, rest) = (&known[..length], &known[length + 1..]);
    let Some((head, tail)) = name.split_at_checked(length) else { return false };
    head.eq_ignore_ascii_case(start)
        && (rest.is_empty() || (0..=tail.len()).any(|at| fits_form(rest, &tail[at..])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Permission;

    #[test]
    fn every_name_of_the_table_is_refused_with_its_reason() {
        for row in &REFUSED_NAMES {
            for known in row.names.split(' ') {
                // A form that begins with any text, and not with a digit.
                for name in [known.replace('*', "X"), known.replace('*', "X_2")] {
                    let error = Permission::env(&name).unwrap_err();
                    // An earlier row may have a form that fits, too.
                    let has_reason = REFUSED_NAMES.iter().any(|row| error.message().contains(row.effect));
                    assert!(has_reason && !row.effect.is_empty(), "{name}: {error}");
                }
            }
        }
    }

    #[test]
    fn a_setting_is_secret_by_a_whole_word_of_its_name() {
        for name in [
            "api_key",
            "apiKey",
            "API_KEY",
            "APIKEY",
            "github_token",
            "githubToken",
            "GITHUB_TOKEN",
            "token",
            "db-password",
            "password",
            "client_secret",
            "secret",
            "secretAccessKey",
            "AWS_SECRET_ACCESS_KEY",
            "credentials",
            "smtp.pass",
            "signing_key",
            "ssh-key",
            "db_pwd",
        ] {
            assert!(is_secret_setting(name), "{name}");
        }
        for name in [
            "sort_key",
            "primary_key",
            "key",
            "keyboard",
            "keywords",
            "max_tokens",
            "tokenizer",
            "token_limit",
            "passes",
            "compass",
            "bypass",
            "pass_count",
            "secretary",
            "monkey",
            "hotkey",
        ] {
            assert!(!is_secret_setting(name), "{name}");
        }
    }

    #[test]
    fn the_names_of_known_attacks_are_refused() {
        for name in [
            "LD_PRELOAD",
            "LD_AUDIT",
            "DYLD_INSERT_LIBRARIES",
            "PYTHONPATH",
            "PYTHONHOME",
            "PYTHONSTARTUP",
            "PYTHONINSPECT",
            "PYTHONWARNINGS",
            "NODE_OPTIONS",
            "BASH_ENV",
            "BASH_FUNC_ls",
            "GIT_SSH_COMMAND",
            "GIT_CONFIG_COUNT",
            "PERL5OPT",
            "PERLLIB",
            "RUBYOPT",
            "GEM_HOME",
            "_JAVA_OPTIONS",
            "GLIBC_TUNABLES",
            "METIER_PROJECT_DIR",
            "XDG_CONFIG_HOME",
            "TAR_OPTIONS",
            "RSYNC_RSH",
            "GCC_EXEC_PREFIX",
            "COMPILER_PATH",
            "CARGO_BUILD_RUSTC_WRAPPER",
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER",
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "GNUMAKEFLAGS",
            "AWKLIBPATH",
            "DOTNET_STARTUP_HOOKS",
            "SSH_ASKPASS",
            "SUDO_ASKPASS",
            "SVN_EDITOR",
            "AWS_PAGER",
            "GTK_MODULES",
            "KSH_ENV",
            "VIMINIT",
            "MAVEN_OPTS",
            "IBM_JAVA_OPTIONS",
            "CGO_CFLAGS",
            "CORECLR_PROFILER",
            "ASAN_OPTIONS",
            "RIPGREP_CONFIG_PATH",
            "PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH",
            "GOCACHEPROG",
            "CFLAGS",
            "RUSTFLAGS",
            "MAKEFLAGS",
        ] {
            assert!(check_variable_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_form_is_refused_in_any_case_and_a_single_word_as_it_is() {
        for name in [
            "Npm_config_script_shell",
            "nPM_CONFIG_SCRIPT_SHELL",
            "npm_Config_node_options",
            "yarn_rc_filename",
            "Yarn_Plugins",
            "pnpm_config_script_shell",
            "complus_EnableDiagnostics",
            "dotnet_startup_hooks",
            "msbuildSDKsPath",
            "custombeforeMicrosoftCommonTargets",
            "Node_Options",
            "git_ssh_command",
            "ld_preload",
            "Bundle_Gemfile",
            "pip_index_url",
        ] {
            let error = check_variable_name(name).unwrap_err();
            assert!(error.starts_with(name), "{error}");
        }
        for name in ["path", "shell", "env", "rm", "Cc", "home"] {
            assert_eq!(check_variable_name(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn what_runs_programs_or_loads_code_by_its_form_is_refused() {
        for name in "CONFIG_SITE RM CC CO GET LEX YACC LDLIBS FFLAGS ARFLAGS VPATH ac_cv_prog_CC lt_cv_path_NM TESTOPTS \
                     NAPI_RS_NATIVE_LIBRARY_PATH CLOUDSDK_PYTHON CLOUDSDK_GSUTIL_PYTHON PYSPARK_PYTHON AZURE_EXTENSION_DIR \
                     RAKEOPT SPEC_OPTS RUBOCOP_OPTS PYLINTRC fish_function_path fish_complete_path GROFF_COMMAND_PREFIX \
                     RCLONE_PASSWORD_COMMAND RESTIC_PASSWORD_COMMAND BORG_PASSCOMMAND BORG_RSH RCLONE_SFTP_SSH \
                     RCLONE_CONFIG_X_PASSWORD_COMMAND GVBINDIR GNUPLOT_DRIVER_DIR GDAL_DRIVER_PATH LIBVA_DRIVERS_PATH \
                     KUSTOMIZE_PLUGIN_HOME HELM_PLUGINS PRISMA_QUERY_ENGINE_LIBRARY PRISMA_SCHEMA_ENGINE_BINARY SCONSFLAGS \
                     KUBECTL_EXTERNAL_DIFF DBUS_SESSION_BUS_ADDRESS GUNICORN_CMD_ARGS MPLBACKEND APT_CONFIG"
            .split_whitespace()
        {
            assert!(check_variable_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn what_scripts_need_can_be_given() {
        for name in
            "OPENAI_API_KEY NODE_ENV _ a1 GITHUB_TOKEN HTTPS_PROXY SHELLY PATHS TZ RUST_LOG RUST_BACKTRACE CARGO_TERM_COLOR \
             CARGO_REGISTRY_TOKEN CARGO_REGISTRIES_X_TOKEN DOTNET_ENVIRONMENT GOMAXPROCS GOOGLE_API_KEY RSYNC_PASSWORD TF_VAR_x \
             MIX_ENV FISH_API_KEY HARNESS_API_KEY WINERY_ID VAGRANT_CLOUD_TOKEN VK_TOKEN \
             NUGET_API_KEY MAVEN_PASSWORD AWS_PROFILE KUBECONFIG COMPOSER_AUTH JULIA_NUM_THREADS DJANGO_SETTINGS_MODULE FEATURE_FLAGS EDITOR_X"
                .split(' ')
        {
            assert_eq!(check_variable_name(name), Ok(()), "{name}");
        }
        for name in ["", "1A", "A-B", "A=B", "A B", "A\0", "É", "A%%", &"A".repeat(MAX_NAME_BYTES + 1)] {
            assert!(check_variable_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_name_says_that_its_value_is_secret() {
        for name in
            ["OPENAI_API_KEY", "gh_token", "DbPassword", "client_Secret", "AWS_CREDENTIALS", "PASSPHRASE"]
        {
            assert!(is_secret_variable(name), "{name}");
        }
        for name in ["PORT", "LOG_LEVEL", "REGION", "TOK"] {
            assert!(!is_secret_variable(name), "{name}");
        }
    }
}
