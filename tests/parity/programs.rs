//! Programs whose settings lie below `/etc`: they answer as outside of the sandbox, and never otherwise without a word.

use crate::parity::work::Work;
use crate::support::not_run::{find_program, not_run};

/// The levels at which a program can have sockets of its own.
const WITH_SOCKETS: &[&str] = &["namespaces"];

/// The program, and a script that uses what its settings name.
const PROGRAMS: [(&str, &str); 9] = [
    ("fc-match", "for font in sans serif monospace Helvetica; do fc-match \"$font\"; done; fc-list | sort | head -n 3"),
    ("php", "php -r 'echo mb_strtoupper(\"aé\"), simplexml_load_string(\"<a><b>1</b></a>\")->b, \" \", php_ini_loaded_file();'"),
    ("identify", "identify -list policy; identify -list type | head -n 20"),
    (
        "rsvg-convert",
        "printf '<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"90\" height=\"30\"><text y=\"20\" font-family=\"serif\">Hi</text></svg>' |
            rsvg-convert | cksum",
    ),
    ("dpkg", "dpkg --print-architecture; dpkg --compare-versions 1.10 gt 1.9 && echo newer"),
    ("gdb", "gdb -batch -ex 'print 6 * 7'"),
    ("Rscript", "Rscript -e 'x <- 1:4; cat(mean(x), capabilities(\"cairo\"), coef(lm(c(2, 4, 6, 8.5) ~ x)), \"\\n\")'"),
    (
        "pdflatex",
        "cd \"$(mktemp -d)\" && printf '%s' '\\documentclass{article}\\begin{document}Hello $x^2$\\end{document}' >a.tex &&
            pdflatex -interaction=nonstopmode a.tex | grep 'Output written' && head -c 4 a.pdf; cd / && rm -rf \"$OLDPWD\"",
    ),
    (
        "soffice",
        "cd \"$(mktemp -d)\" && echo Hello >a.txt && soffice --headless --convert-to pdf a.txt >/dev/null 2>&1; head -c 4 a.pdf;
            cd / && rm -rf \"$OLDPWD\" ~/.config",
    ),
];

#[test]
fn programs_find_the_settings_that_they_have_outside() {
    for (program, script) in PROGRAMS {
        if find_program(program).is_none() {
            not_run("settings of programs", &format!("{program} is not installed"));
            continue;
        }
        let shell: &'static str = Box::leak(format!("{{ {script}; }} 2>&1").into_boxed_str());
        let levels = if program == "soffice" { WITH_SOCKETS } else { &[] };
        Work { what: program, shell, levels, ..Work::default() }.is_the_same();
    }
}

#[test]
fn a_script_finds_out_which_limits_its_container_has() {
    const SCRIPT: &str = "
import os
print(open('/proc/self/cgroup').read(), 'ext4' in open('/proc/filesystems').read() or 'tmpfs' in open('/proc/filesystems').read())
for line in open('/proc/self/cgroup'):
    controllers, path = line.strip().split(':', 2)[1:]
    limits = {'': ['memory.max', 'cpu.max'], 'memory': ['memory.limit_in_bytes'], 'cpu': ['cpu.cfs_quota_us']}
    for limit in limits.get(controllers, []):
        file = os.path.join('/sys/fs/cgroup', controllers, path.lstrip('/'), limit)
        print(limit, open(file).read() if os.path.exists(file) else 'none')
";
    Work { what: "control groups", python: SCRIPT, ..Work::default() }.is_the_same();
}

#[test]
fn a_script_gets_a_random_uuid_of_the_kernel() {
    const SCRIPT: &str = "a=$(cat /proc/sys/kernel/random/uuid) b=$(cat /proc/sys/kernel/random/uuid)
        echo ${#a} ${#b}; [ \"$a\" != \"$b\" ] && echo differ; cat /proc/sys/kernel/random/boot_id 2>/dev/null || echo refused";
    let project = crate::support::cli::Project::new();
    for level in ["namespaces", "landlock"] {
        let mut command = project.command(&["exec", "--", "sh", "-c", SCRIPT]);
        let answer: crate::support::cli::Answer =
            command.env("METIER_SANDBOX_LEVEL", level).output().unwrap().into();
        assert_eq!(answer.stdout, "36 36\ndiffer\nrefused\n", "{level}: {answer:?}");
    }
}

#[test]
fn nothing_else_of_the_settings_of_the_machine_can_be_read() {
    const SCRIPT: &str = "
import os
for file in ['/etc/shadow', '/etc/ssh/ssh_config', '/etc/sudoers', '/etc/ssl/private', '/etc/hostname', '/etc/fstab', '/proc/1/environ', '/proc/keys']:
    try:
        open(file).read() if not os.path.isdir(file) else os.listdir(file)
        print(file)
    except OSError:
        pass
";
    if find_program("python3").is_none() {
        return not_run("settings of the machine", "python3 is not installed");
    }
    let project = crate::support::cli::Project::new().file("main.py", SCRIPT);
    for level in ["namespaces", "landlock"] {
        let mut command = project.command(&["exec", "--", "python3", "main.py"]);
        let answer: crate::support::cli::Answer =
            command.env("METIER_SANDBOX_LEVEL", level).output().unwrap().into();
        assert!(answer.code == 0 && answer.stdout.is_empty(), "{level}: {answer:?}");
    }
}
