//! `freehold doctor` against real files and processes. Programs are made by the C compiler where a kind is
//! wanted that not every machine has; the library is a stand-in that exports malloc, so that these tests do
//! not depend on a build of the C half.

mod command;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use command::command;
use profile_file::testing::skip_part;
use tempfile::TempDir;

/// A directory with a stand-in library in it.
struct Bench {
    directory: TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        bench.compile(
            "libfreehold.so",
            "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
             extern void *__libc_malloc(size_t);\n\
             void *malloc(size_t n) { return __libc_malloc(n); }\n\
             __attribute__((constructor)) static void greet(void) {\n\
                 const char *options = getenv(\"FREEHOLD\");\n\
                 if (options && strstr(options, \"verbose=1\")) fputs(\"freehold: version \" VERSION \" is active\\n\", stderr);\n\
             }\n",
            &["-shared", "-fPIC", concat!("-DVERSION=\"", env!("CARGO_PKG_VERSION"), "\"")],
        );
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        // Canonical, because that is how the doctor names a program.
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn compile(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let file = self.path(&format!("{name}.c"));
        let program = self.path(name);
        fs::write(&file, source).unwrap();
        let output = Command::new("cc")
            .arg(&file)
            .arg("-o")
            .arg(&program)
            .args(flags)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        program
    }

    /// A program that allocates, and is linked in the usual way.
    fn program(&self, name: &str, flags: &[&str]) -> PathBuf {
        self.compile(
            name,
            "#include <stdlib.h>\nint main(void) { free(malloc(10)); return 0; }\n",
            flags,
        )
    }

    fn doctor(&self, arguments: &[&str]) -> (i32, String) {
        self.doctor_beside(None, arguments)
    }

    /// The same where another library is preloaded already.
    fn doctor_beside(&self, preloaded: Option<&Path>, arguments: &[&str]) -> (i32, String) {
        let output = assert_cmd::Command::new(command())
            .arg("doctor")
            .arg("--library")
            .arg(self.path("libfreehold.so"))
            .args(arguments)
            .env_remove("LD_PRELOAD")
            .env_remove("FREEHOLD")
            .envs(preloaded.map(|library| ("LD_PRELOAD", library)))
            .output()
            .unwrap();
        let said =
            String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (
            output.status.code().unwrap(),
            said.replace(&self.path("").display().to_string(), "DIR/"),
        )
    }

    fn ask(&self, program: &Path) -> (i32, String) {
        self.doctor(&["--", program.to_str().unwrap()])
    }
}

/// A copy of a program that the caller may change.
fn copy_of(program: &Path, to: &Path) {
    fs::copy(program, to).unwrap();
}

#[test]
fn an_ordinary_program_would_run() {
    let bench = Bench::new();
    let program = bench.program("ordinary", &[]);
    let (code, said) = bench.ask(&program);
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("ok        the loader binds malloc of "),
        "{said}"
    );
    assert!(said.ends_with("Yes: DIR/ordinary would run under Freehold.\n  LD_PRELOAD=DIR/libfreehold.so DIR/ordinary\n"));
}

#[test]
fn a_static_program_would_not() {
    let bench = Bench::new();
    for flag in ["-static", "-static-pie"] {
        let program = bench.program("static", &[flag]);
        let (code, said) = bench.ask(&program);
        assert_eq!(code, 1, "{flag}: {said}");
        assert!(
            said.contains("the program is statically linked"),
            "{flag}: {said}"
        );
    }
}

#[test]
fn a_setuid_program_of_somebody_else_would_not() {
    let bench = Bench::new();
    let program = bench.program("setuid", &[]);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let (code, said) = bench.ask(&program);
    assert_eq!(code, 0, "for its owner it is an ordinary program: {said}");
    assert!(
        said.contains("note      the program is setuid or setgid"),
        "{said}"
    );

    if std::os::unix::fs::chown(&program, Some(65534), None).is_err() {
        return skip_part("only root can give a file to somebody else");
    }
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let (code, said) = bench.ask(&program);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("BLOCKS    the program is setuid"), "{said}");
}

#[test]
fn file_capabilities_are_seen() {
    let bench = Bench::new();
    let program = bench.program("capable", &[]);
    let set = ["setcap", "/sbin/setcap", "/usr/sbin/setcap"]
        .iter()
        .any(|setcap| {
            let status = Command::new(setcap)
                .arg("cap_net_raw+ep")
                .arg(&program)
                .stderr(Stdio::null())
                .status();
            status.is_ok_and(|status| status.success())
        });
    if !set {
        skip_part(
            "no capabilities can be set here: no setcap, no right to, or a file system without them",
        );
    }
    let (code, said) = bench.ask(&program);
    // Where they cannot be set the program is ordinary; where they can, we are root, whose programs they do not change.
    assert_eq!(code, 0, "{said}");
    assert_eq!(said.contains("the file has capabilities"), set, "{said}");
}

#[test]
fn a_script_is_followed_to_its_interpreter() {
    let bench = Bench::new();
    let program = bench.program("runner", &[]);
    let script = bench.path("script");
    fs::write(&script, format!("#!{}\n", program.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let (code, said) = bench.ask(&script);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("program   DIR/runner"), "{said}");
    assert!(
        said.contains("note      DIR/script is a script; what runs is its interpreter"),
        "{said}"
    );
}

#[test]
fn a_shell_script_starts_somebody_else() {
    let bench = Bench::new();
    let script = bench.path("wrapper");
    fs::write(&script, "#!/bin/sh\nexec sleep 0\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let (code, said) = bench.ask(&script);
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains(
            "-> what the shell starts runs under Freehold too, but is not looked at here"
        ),
        "{said}"
    );
}

#[test]
fn another_architecture_is_named() {
    let bench = Bench::new();
    let program = bench.program("other", &[]);
    let foreign = bench.path("foreign");
    copy_of(&program, &foreign);
    let mut bytes = fs::read(&foreign).unwrap();
    // The field of the ELF header that names the CPU: 183 is arm64, 243 is RISC-V.
    let machine: u16 = if cfg!(target_arch = "aarch64") {
        243
    } else {
        183
    };
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    fs::write(&foreign, bytes).unwrap();
    let (code, said) = bench.ask(&foreign);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("BLOCKS    wrong architecture: the program is 64-bit "),
        "{said}"
    );
}

#[test]
fn a_32_bit_program_is_named() {
    let bench = Bench::new();
    let program = bench.path("old");
    // A header alone says enough: class 1, little endian, an executable for the 386, no segments.
    let mut header = vec![0u8; 52];
    header[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
    header[16..21].copy_from_slice(&[2, 0, 3, 0, 1]);
    fs::write(&program, header).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let (code, said) = bench.ask(&program);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("wrong architecture: the program is 32-bit x86, the library is 64-bit"),
        "{said}"
    );
}

#[test]
fn malloc_of_the_program_itself_comes_first() {
    let bench = Bench::new();
    let source = "#include <stddef.h>\nstatic char heap[1 << 20];\nstatic size_t used;\n\
                  void *malloc(size_t n) { void *p = heap + used; used += (n + 15) & ~15ul; return p; }\n\
                  void free(void *p) { (void)p; }\nint main(void) { free(malloc(10)); return 0; }\n";
    let program = bench.compile("own", source, &["-fno-builtin", "-rdynamic"]);
    let (code, said) = bench.ask(&program);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("BLOCKS    the program defines malloc itself, which comes first"),
        "{said}"
    );
    assert!(
        said.contains("to the program itself"),
        "the loader agrees: {said}"
    );
}

#[test]
fn another_malloc_that_is_preloaded_comes_behind() {
    let bench = Bench::new();
    let program = bench.program("ordinary", &[]);
    let other = bench.compile(
        "libother.so",
        "#include <stddef.h>\nextern void *__libc_malloc(size_t);\nvoid *malloc(size_t n) { return __libc_malloc(n); }\n",
        &["-shared", "-fPIC"],
    );
    let (code, said) = bench.doctor_beside(Some(&other), &["--", program.to_str().unwrap()]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("to Freehold\n"), "{said}");
}

#[test]
fn an_allocator_built_in_under_its_own_names_is_found() {
    let bench = Bench::new();
    let source = "#include <stdlib.h>\nvoid *mi_malloc(size_t n) { return malloc(n); }\n\
                  int main(void) { free(mi_malloc(10)); return 0; }\n";
    let program = bench.compile("built-in", source, &[]);
    let (code, said) = bench.ask(&program);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("mimalloc is built into the program"),
        "{said}"
    );
}

#[test]
fn a_missing_command_and_a_missing_library_are_named() {
    let bench = Bench::new();
    let (code, said) = bench.doctor(&["--", "no-such-command"]);
    assert_eq!(code, 1);
    assert!(
        said.contains("BLOCKS    no-such-command was not found in PATH"),
        "{said}"
    );

    fs::remove_file(bench.path("libfreehold.so")).unwrap();
    let program = bench.program("ordinary", &[]);
    let (code, said) = bench.ask(&program);
    assert_eq!(code, 1);
    assert!(
        said.contains("BLOCKS    there is no library at DIR/libfreehold.so"),
        "{said}"
    );
}

#[test]
fn the_trial_hears_the_greeting() {
    let bench = Bench::new();
    let program = bench.program("tried", &[]);
    let (code, said) = bench.doctor(&["--try", "--", program.to_str().unwrap()]);
    assert_eq!(code, 0, "{said}");
    let line = concat!(
        "ok        started, and it said: freehold: version ",
        env!("CARGO_PKG_VERSION"),
        " is active\n"
    );
    assert!(said.contains(line), "{said}");
}

#[test]
fn a_program_that_binds_deeply_is_known_and_tried() {
    let bench = Bench::new();
    // Exports a function that every PHP has, and says what Freehold would say.
    let program = bench.compile(
        "plugins",
        "#include <stdio.h>\n\
         void php_module_startup(void) {}\n\
         int main(void) { fputs(\"freehold: dlopen(/lib/a.so): RTLD_DEEPBIND is dropped, or\\n\", stderr); return 0; }\n",
        &["-rdynamic"],
    );
    let (code, said) = bench.doctor(&["--try", "--", program.to_str().unwrap()]);
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("PHP opens libraries with RTLD_DEEPBIND"),
        "{said}"
    );
    assert!(
        said.contains("/lib/a.so: opened with RTLD_DEEPBIND"),
        "{said}"
    );
}

#[test]
fn the_trial_notices_silence() {
    let bench = Bench::new();
    let program = bench.program("quiet", &[]);
    // A library that takes over malloc but never greets.
    bench.compile(
        "libfreehold.so",
        "#include <stddef.h>\nextern void *__libc_malloc(size_t);\nvoid *malloc(size_t n) { return __libc_malloc(n); }\n",
        &["-shared", "-fPIC"],
    );
    let (code, said) = bench.doctor(&["--try", "--", program.to_str().unwrap()]);
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("BLOCKS    started, but Freehold did not greet"),
        "{said}"
    );
}

#[test]
fn a_running_process_is_examined() {
    let bench = Bench::new();
    let source =
        "#include <stdio.h>\nint main(void) { puts(\"up\"); fflush(stdout); return getchar(); }\n";
    let program = bench.compile("resident", source, &[]);
    for preloaded in [true, false] {
        let mut command = Command::new(&program);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .env_remove("LD_PRELOAD")
            .env("FREEHOLD", "purge=lazy,stats=0");
        if preloaded {
            command.env("LD_PRELOAD", bench.path("libfreehold.so"));
        }
        let mut child = command.spawn().unwrap();
        // Its first output comes after its loader is done.
        let mut line = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(child.stdout.as_mut().unwrap()),
            &mut line,
        )
        .unwrap();

        let (code, said) = bench.doctor(&[&child.id().to_string()]);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(code, i32::from(!preloaded), "{said}");
        assert!(said.contains("options   purge=lazy, stats=0"), "{said}");
        let expected = if preloaded {
            "libfreehold.so is loaded"
        } else {
            "libfreehold.so is not loaded"
        };
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_question_that_cannot_be_answered_is_neither_yes_nor_no() {
    let bench = Bench::new();
    // Above the largest number that the kernel gives to a process.
    let (code, said) = bench.doctor(&["4194999"]);
    assert_eq!(code, 2);
    assert!(
        said.starts_with("freehold: there is no process 4194999"),
        "{said}"
    );
    let (code, said) = bench.doctor(&["no-such-program-or-process"]);
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("no program \"no-such-program-or-process\" in PATH, no process"),
        "{said}"
    );
    let notes = bench.path("notes.txt");
    fs::write(&notes, "x").unwrap();
    let (code, said) = bench.doctor(&[notes.to_str().unwrap()]);
    assert_eq!(code, 2, "{said}");
    assert!(
        said.starts_with("freehold: DIR/notes.txt is neither a program nor a script"),
        "{said}"
    );
}

#[test]
fn a_command_needs_no_dashes() {
    let bench = Bench::new();
    let program = bench.program("ordinary", &[]);
    let program = program.to_str().unwrap();
    for words in [&[program][..], &[program, "--json", "-x"]] {
        let (code, said) = bench.doctor(words);
        assert_eq!(code, 0, "{said}");
        assert!(
            said.contains("Yes: DIR/ordinary would run under Freehold.\n"),
            "{said}"
        );
    }
    let (code, said) = bench.doctor(&["--try", program, "-x"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("ok        started, and it said"), "{said}");
}

#[test]
fn a_script_is_taken_for_a_command() {
    let bench = Bench::new();
    let script = bench.path("app.sh");
    fs::write(&script, "echo\n").unwrap();
    let (code, said) = bench.doctor(&[script.to_str().unwrap(), "-n"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("libfreehold.so sh DIR/app.sh -n\n"), "{said}");
    // One that says by itself what runs it.
    let script = bench.path("tool");
    fs::write(&script, "#!/bin/sh -e\necho\n").unwrap();
    let (code, said) = bench.doctor(&[script.to_str().unwrap()]);
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("libfreehold.so /bin/sh -e DIR/tool\n"),
        "{said}"
    );
}

#[test]
fn a_trial_is_of_a_command() {
    let bench = Bench::new();
    // Also where a process of that name runs.
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let (_, said) = bench.doctor(&["--try", "sleep"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.contains("ok        started, and it said"), "{said}");
    // A number is none.
    let (code, said) = bench.doctor(&["--try", &std::process::id().to_string()]);
    assert_eq!(code, 2);
    assert!(said.contains("--try is for a command"), "{said}");
}

#[test]
fn alone_it_looks_at_the_machine() {
    let bench = Bench::new();
    let (code, said) = bench.doctor(&[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("  library   DIR/libfreehold.so\n"), "{said}");
    assert!(said.contains("overcommit"), "{said}");
    assert!(said.contains("control group"), "{said}");
    assert!(
        said.contains("Yes: programs can run under Freehold here.\n"),
        "{said}"
    );
    fs::remove_file(bench.path("libfreehold.so")).unwrap();
    let (code, said) = bench.doctor(&["--json"]);
    assert_eq!(code, 1, "{said}");
    let value: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(value["subject"], "machine");
}

#[test]
fn the_answer_comes_as_json_too() {
    let bench = Bench::new();
    let program = bench.program("static", &["-static"]);
    let (code, said) = bench.doctor(&["--json", "--", program.to_str().unwrap()]);
    assert_eq!(code, 1);
    let value: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(value["under_freehold"], false);
    assert_eq!(value["program"], "DIR/static");
    assert_eq!(value["findings"][0]["check"], "linkage");
    assert_eq!(value["findings"][0]["level"], "blocks");
}

#[test]
fn a_file_that_is_no_library_is_no_way_to_run_anything() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("libempty.so");
    std::fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    let output = Command::new(command())
        .args(["doctor", "--library", file])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("{file} is no library")), "{said}");
}
