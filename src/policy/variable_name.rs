//! The names of environment variables that a run can be given, and those that it is never given.

/// Maximum bytes of a name.
const MAX_NAME_BYTES: usize = 256;

/// Names that no run is given, and why.
struct RefusedNames {
    /// Whole names, or their beginnings where a `*` follows. Their case counts.
    names: &'static [&'static str],
    /// What they do: the rest of a sentence that begins with the name.
    effect: &'static str,
}

/// A value may come from a file of the project, and a name from a skill: neither may decide which code runs, or whom programs trust.
/// Names that say what to talk to, such as proxies and certificates, can be given by a person; the command takes them from no file.
const REFUSED_NAMES: [RefusedNames; 16] = [
    RefusedNames {
        names: &["LD_*", "DYLD_*", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "NLSPATH", "MALLOC_*"],
        effect: "decides what the system's loader and C library load, or how they work",
    },
    RefusedNames {
        names: &["RES_OPTIONS", "LOCALDOMAIN", "HOSTALIASES", "RESOLV_*"],
        effect: "changes which machine the name of a host means",
    },
    RefusedNames {
        names: &[
            "PATH",
            "SHELL",
            "EDITOR",
            "VISUAL",
            "PAGER",
            "BROWSER",
            "LESSOPEN",
            "LESSCLOSE",
            "MANPAGER",
        ],
        effect: "decides which programs are started",
    },
    RefusedNames {
        names: &[
            "BASH_*",
            "BASHOPTS",
            "SHELLOPTS",
            "ENV",
            "IFS",
            "CDPATH",
            "GLOBIGNORE",
            "EXECIGNORE",
            "PS1",
            "PS2",
            "PS4",
            "PROMPT_COMMAND",
            "FPATH",
            "ZDOTDIR",
            "POSIXLY_CORRECT",
            "PWD",
            "OLDPWD",
        ],
        effect: "changes what a shell runs",
    },
    RefusedNames { names: &["PYTHON*"], effect: "changes what Python loads, or how it runs" },
    RefusedNames {
        names: &[
            "NODE_OPTIONS",
            "NODE_PATH",
            "NODE_REPL_*",
            "NODE_V8_COVERAGE",
            "NODE_COMPILE_CACHE",
            "NODE_TLS_REJECT_UNAUTHORIZED",
            "BUN_*",
            "DENO_DIR",
            "DENO_V8_FLAGS",
            "TSX_*",
            "TS_NODE_*",
        ],
        effect: "changes what JavaScript loads, or how it runs",
    },
    RefusedNames {
        names: &["npm_config_*", "NPM_CONFIG_*", "YARN_*", "PIP_*", "UV_*", "CONDA_*", "VIRTUAL_ENV"],
        effect: "decides which packages are installed and loaded",
    },
    RefusedNames { names: &["PERL*"], effect: "changes what Perl loads, or how it runs" },
    RefusedNames {
        names: &["RUBY*", "GEM_*", "BUNDLE_*"],
        effect: "changes what Ruby loads, or how it runs",
    },
    RefusedNames {
        names: &["JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_HOME", "CLASSPATH"],
        effect: "changes what Java loads, or how it runs",
    },
    RefusedNames {
        names: &[
            "PHPRC",
            "PHP_INI_SCAN_DIR",
            "LUA_PATH*",
            "LUA_CPATH*",
            "LUA_INIT*",
            "R_HOME",
            "R_LIBS*",
            "R_PROFILE*",
            "R_ENVIRON*",
            "PSModulePath",
        ],
        effect: "changes what an interpreter loads",
    },
    RefusedNames {
        names: &[
            "GOFLAGS",
            "GOROOT",
            "GOPROXY",
            "RUSTC*",
            "RUSTFLAGS",
            "MAKEFLAGS",
            "MAKEFILES",
            "CC",
            "CXX",
        ],
        effect: "changes what a build runs",
    },
    RefusedNames { names: &["GIT_*"], effect: "changes what git runs, and on which repository" },
    RefusedNames {
        names: &["OPENSSL_CONF", "OPENSSL_MODULES", "OPENSSL_ENGINES", "SSLKEYLOGFILE"],
        effect: "changes what the libraries for encryption load, or writes their keys down",
    },
    RefusedNames {
        names: &["HOME", "TMPDIR", "TMP", "TEMP", "XDG_*"],
        effect: "names a folder that metier makes for each run",
    },
    RefusedNames { names: &["METIER_*"], effect: "is one of metier's own" },
];

/// Parts of names whose values are secret, in capitals.
const SECRET_WORDS: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL"];

/// Fails with the reason if no run is given a variable of this name.
pub(crate) fn check_variable_name(name: &str) -> Result<(), String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_name = name.bytes().all(is_part) && name.starts_with(|first: char| !first.is_ascii_digit());
    if !is_name || name.len() > MAX_NAME_BYTES {
        return Err("the name of a variable has letters, digits and `_`, and begins with no digit".into());
    }
    match REFUSED_NAMES.iter().find(|refused| refused.names.iter().any(|known| fits(known, name))) {
        Some(refused) => Err(format!("{name} {}, so no run is given it", refused.effect)),
        None => Ok(()),
    }
}

/// Whether the name says that its value is secret.
pub(crate) fn is_secret_variable(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Whether a name is this one, or begins with it where it ends in `*`.
fn fits(known: &str, name: &str) -> bool {
    match known.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Permission;

    #[test]
    fn every_name_of_the_table_is_refused_with_its_reason() {
        for row in &REFUSED_NAMES {
            for known in row.names {
                let names = match known.strip_suffix('*') {
                    Some(start) => vec![format!("{start}X"), format!("{start}2")],
                    None => vec![(*known).to_owned()],
                };
                for name in names {
                    let error = Permission::env(&name).unwrap_err();
                    assert!(error.message().contains(row.effect), "{name}: {error}");
                }
            }
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
        ] {
            assert!(check_variable_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn what_scripts_need_can_be_given() {
        for name in
            ["OPENAI_API_KEY", "NODE_ENV", "_", "a1", "GITHUB_TOKEN", "HTTPS_PROXY", "SHELLY", "PATHS", "TZ"]
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
