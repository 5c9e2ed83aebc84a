//! `freehold run`: what a program gets and gives, how its end is told, and what is left of it when it was killed.

mod observed;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use observed::*;
use profile_file::testing::skip;
use serde_json::Value;

/// Holds a MiB for each line of input that says "more", tells about signals, and waits.
const HOLDER: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void told(int signal) { char text[] = "told\n"; (void)signal; (void)!write(1, text, 5); }

__attribute__((noinline)) static void *hold(size_t n) {
    char *p = malloc(n);
    memset(p, 1, n);
    return p;
}
static void *held[100000];

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int count = 0;
    signal(SIGUSR1, told);
    for (; count < 320; count++) held[count] = hold(100000);
    if (!strcmp(what, "exit")) return atoi(argv[2]);
    if (!strcmp(what, "crash")) abort();
    if (!strcmp(what, "eat")) for (;; count++) held[count] = hold(100000);
    if (!strcmp(what, "fork")) {
        for (int i = 0; i < 3; i++) {
            if (fork() == 0) {
                for (int k = 0; k < 50; k++) held[count + k] = hold(100000);
                if (i == 2) raise(SIGKILL);
                return 0;
            }
        }
        while (wait(NULL) > 0) {}
        return 0;
    }
    puts("ready");
    fflush(stdout);
    int c;
    while ((c = getchar()) != EOF) putchar(c), fflush(stdout);
    puts("end");
    return 0;
}
"#;

struct Place {
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let program = compile(directory.path(), "holder", HOLDER, &[]);
        Self { directory, program }
    }

    fn start(&self, options: &[&str], arguments: &[&str]) -> Observed {
        let mut all = vec![self.program.to_str().unwrap()];
        all.extend(arguments);
        Observed::start(options, &all)
    }
}

/// The last line, which is JSON after whatever the program said.
fn summary(said: &str) -> Value {
    let line = said.lines().last().unwrap_or_else(|| panic!("{said}"));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {said}"))
}

#[test]
fn the_exit_code_is_the_programs() {
    let place = Place::new();
    for wanted in [0, 3, 255] {
        let (code, said, _pages) = place.start(&[], &["exit", &wanted.to_string()]).end();
        assert_eq!(code, wanted, "{said}");
        assert!(
            said.contains(&format!("ended by itself with exit code {wanted} after ")),
            "{said}"
        );
        assert_eq!(said.lines().count(), 3, "three lines: {said}");
        assert!(
            said.lines()
                .last()
                .unwrap()
                .starts_with("freehold: next: freehold profile "),
            "{said}"
        );
    }
}

#[test]
fn input_and_output_pass_through() {
    let place = Place::new();
    let mut run = place.start(&[], &[]);
    assert_eq!(run.line(), "ready");
    run.say("hello\n");
    assert_eq!(run.line(), "hello");
    drop(run.input.take());
    assert_eq!(run.line(), "end");
    assert_eq!(run.end().0, 0);
}

#[test]
fn a_signal_that_is_sent_to_us_reaches_the_program() {
    let place = Place::new();
    let mut run = place.start(&[], &[]);
    assert_eq!(run.line(), "ready");
    let kill = |signal: &str, pid: u32| {
        assert!(
            Command::new("kill")
                .args([signal, &pid.to_string()])
                .status()
                .unwrap()
                .success()
        );
    };
    kill("-USR1", run.runner.id());
    assert_eq!(run.line(), "told");
    kill("-TERM", run.runner.id());
    // Its input stays open until it has ended: the end of that would end it, too.
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut run.output, &mut rest).unwrap();
    assert_eq!(rest, "");
    let (code, said, _pages) = run.end();
    assert_eq!(code, 128 + 15, "{said}");
    assert!(said.contains("was ended by SIGTERM"), "{said}");
}

/// The terminal sends what is typed to everybody in the foreground, so the program has it already: it must not get it
/// from us a second time.
#[test]
fn what_the_terminal_sends_comes_once() {
    if !installed("script") {
        return skip("no script (package bsdutils)");
    }
    let place = Place::new();
    let source = "#include <signal.h>\n#include <unistd.h>\nstatic volatile int count;\n\
                  static void told(int s) { (void)s; count++; }\n\
                  int main(void) { signal(SIGINT, told); (void)!write(1, \"ready\\n\", 6);\n\
                  while (!count) pause();\n sleep(1); sleep(1); return 40 + count; }\n";
    let program = compile(place.directory.path(), "counter", source, &[]);
    let profiles = place.directory.path().join("pages");
    // In the place of the shell: a shell that waits gets the key, too, and some then end with a code of their own.
    let line = format!(
        "exec {} run --keep {} -- {}",
        command().display(),
        profiles.display(),
        program.display()
    );
    let mut terminal = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = std::io::BufReader::new(terminal.stdout.take().unwrap());
    let mut said = String::new();
    while !said.contains("ready") {
        assert!(
            std::io::BufRead::read_line(&mut output, &mut said).unwrap() > 0,
            "{said}"
        );
    }
    let mut input = terminal.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"\x03").unwrap();
    std::io::Write::flush(&mut input).unwrap();
    std::io::Read::read_to_string(&mut output, &mut said).unwrap();
    let status = terminal.wait().unwrap();
    assert_eq!(status.code(), Some(41), "{said}");
}

/// What is left of a program is there for every command that reads it.
fn is_readable(profile: &Path) {
    let profile = profile.to_str().unwrap();
    let said = answer(&["profile", profile]);
    assert!(said.contains("hold"), "the call site is named: {said}");
    answer(&["leaks", profile]);
    let explained: Value = serde_json::from_str(&answer(&["explain", "--json", profile])).unwrap();
    assert_eq!(explained["alive"], false);
    assert!(
        explained["freehold_bytes"].as_u64().unwrap() > 20 << 20,
        "{explained:#}"
    );
    let metrics = answer(&["metrics", profile]);
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
}

#[test]
fn after_kill_9_everything_is_still_there() {
    let place = Place::new();
    let mut run = place.start(&["--json"], &[]);
    assert_eq!(run.line(), "ready");
    let pid = run.pid();
    let said = answer(&["doctor", &pid.to_string()]);
    assert!(said.contains("observed: one sample in 512.0 KiB"), "{said}");
    assert!(
        Command::new("kill")
            .args(["-9", &pid.to_string()])
            .status()
            .unwrap()
            .success()
    );
    let (code, said, profiles) = run.end();
    assert_eq!(code, 137, "{said}");
    let it = summary(&said);
    assert_eq!(
        (&it["how"], &it["signal"]),
        (&"signalled".into(), &9.into()),
        "{it:#}"
    );
    // 320 blocks of 100,000 bytes, by samples of one in 512 KiB.
    let live = it["heap"]["live_bytes"].as_f64().unwrap();
    let error = it["heap"]["live_error_bytes"].as_f64().unwrap();
    assert!((live - 32e6).abs() < 5.0 * error && error < 8e6, "{it:#}");
    is_readable(&profiles.path().join(format!("freehold-{pid}")));
}

#[test]
fn a_crash_is_told_and_leaves_its_page() {
    let place = Place::new();
    let (code, said, profiles) = place.start(&["--json"], &["crash"]).end();
    assert_eq!(code, 128 + 6, "{said}");
    let it = summary(&said);
    assert_eq!(it["signal"], 6, "{it:#}");
    is_readable(Path::new(it["heap"]["page"].as_str().unwrap()));
    drop(profiles);
}

/// A control group of our own with a limit, removed in the end. None where there can be none.
struct Group(PathBuf);

impl Group {
    fn new(limit: u64) -> Option<Self> {
        for (root, file) in [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ] {
            let group = Self(Path::new(root).join(format!("freehold-test-{}", std::process::id())));
            if fs::create_dir(&group.0).is_ok()
                && fs::write(group.0.join(file), limit.to_string()).is_ok()
            {
                // Else the machine's swap takes what is over the limit, and nothing ends.
                for (swap, most) in [
                    ("memory.memsw.limit_in_bytes", limit),
                    ("memory.swap.max", 0),
                ] {
                    let _ = fs::write(group.0.join(swap), most.to_string());
                }
                return Some(group);
            }
        }
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn the_end_of_memory_in_a_control_group_is_told_and_leaves_the_page() {
    let Some(group) = Group::new(96 << 20) else {
        return skip("no control group with a memory limit can be made here");
    };
    let place = Place::new();
    // The program enters the group by itself: this process and `freehold run` stay out of it.
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec {} eat",
        group.0.display(),
        place.program.display()
    );
    let (code, said, profiles) = Observed::start(&["--json"], &["sh", "-c", &script]).end();
    assert_eq!(code, 137, "{said}");
    let it = summary(&said);
    assert_eq!(it["how"], "out_of_memory_in_group", "{it:#}");
    assert_eq!(it["limit"], 96 << 20, "{it:#}");
    assert!(
        it["next"].as_str().unwrap().starts_with("freehold leaks "),
        "{it:#}"
    );
    let live = it["heap"]["live_bytes"].as_u64().unwrap();
    assert!(live > 50 << 20 && live < 110 << 20, "{it:#}");
    is_readable(Path::new(it["heap"]["page"].as_str().unwrap()));
    drop(profiles);
}

#[test]
fn children_are_observed_too() {
    let place = Place::new();
    let (code, said, profiles) = place.start(&["--json"], &["fork"]).end();
    assert_eq!(code, 0, "{said}");
    let it = summary(&said);
    assert_eq!(it["processes"], 4, "{it:#}");
    assert_eq!(
        it["died"].as_array().unwrap().len(),
        1,
        "one of them was killed: {it:#}"
    );
    drop(profiles);
}

#[test]
fn a_run_without_keep_is_listed_and_can_be_removed() {
    let place = Place::new();
    let program = place.program.to_str().unwrap();
    let output = freehold(&["run", "--json", "--", program, "exit", "0"]);
    let it = summary(&text(&output.stderr));
    let directory = PathBuf::from(it["folder"].as_str().unwrap());
    let name = directory.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(name.starts_with("holder."), "{name}");
    assert!(directory.is_dir());
    assert_eq!(
        fs::metadata(&directory).unwrap().permissions().mode() & 0o077,
        0
    );
    let list = answer(&["run", "--list"]);
    let line = list
        .lines()
        .find(|line| line.starts_with(&name))
        .unwrap_or_else(|| panic!("{list}"));
    assert!(
        line.contains("1 process") && line.contains("exit code 0"),
        "{line}"
    );
    // By its number it is found although it is gone.
    answer(&["profile", &it["pid"].to_string()]);

    assert!(answer(&["run", "--clean", &name]).starts_with("1 run removed"));
    assert!(!directory.exists());
    let said = complaint(&["run", "--clean", &name], 2);
    assert!(said.contains("no data of a run called"), "{said}");
}

#[test]
fn what_was_saved_stands_alone() {
    let place = Place::new();
    let file = place.directory.path().join("holder.freehold");
    let (code, said, profiles) = place
        .start(&["--save", file.to_str().unwrap()], &["exit", "0"])
        .end();
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains(&format!("freehold profile {}", file.display())),
        "{said}"
    );
    drop(profiles);
    is_readable(&file);
}

/// Its loader would refuse a library that needs glibc: the program runs without it.
#[test]
fn a_program_on_musl_runs_and_is_not_observed() {
    if !installed("musl-gcc") {
        return skip("musl-gcc is not installed");
    }
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (
        directory.path().join("small.c"),
        directory.path().join("small"),
    );
    fs::write(&source, "int main(void) { return 7; }\n").unwrap();
    let made = Command::new("musl-gcc")
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .status();
    assert!(made.unwrap().success());
    let (code, said, _profiles) = Observed::start(&[], &[program.to_str().unwrap()]).end();
    assert!(said.contains("runs on musl"), "{said}");
    assert_eq!(code, 7, "{said}");
}

#[test]
fn a_static_program_runs_and_is_not_observed() {
    let place = Place::new();
    let program = compile(
        place.directory.path(),
        "static",
        "int main(void) { return 7; }",
        &["-static"],
    );
    let (code, said, profiles) = Observed::start(&[], &[program.to_str().unwrap()]).end();
    assert_eq!(code, 7, "{said}");
    let first = said.lines().next().unwrap();
    assert!(
        first.contains("Freehold will not be active in") && first.contains("statically linked"),
        "{said}"
    );
    assert!(
        said.contains("nothing was observed: the program is statically linked"),
        "{said}"
    );
    assert!(
        said.ends_with(&format!(
            "freehold: next: freehold doctor -- {}\n",
            program.display()
        )),
        "{said}"
    );
    drop(profiles);
}

#[test]
fn what_cannot_be_started_is_named_with_the_code_of_shells() {
    let directory = tempfile::tempdir().unwrap();
    let keep = directory.path().to_str().unwrap();
    let said = complaint(&["run", "--keep", keep, "no-such-command-at-all"], 127);
    let script = directory.path().join("script");
    fs::write(&script, "#!/nowhere/python\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let of_script = complaint(&["run", "--keep", keep, script.to_str().unwrap()], 127);
    assert!(
        of_script.contains("/nowhere/python does not exist"),
        "{of_script}"
    );
    assert_eq!(
        said,
        "freehold: cannot start no-such-command-at-all: there is no such command\n"
    );
    let plain = directory.path().join("plain");
    fs::write(&plain, "text").unwrap();
    let said = complaint(&["run", "--keep", keep, plain.to_str().unwrap()], 126);
    assert!(said.contains("it may not be executed"), "{said}");
    let said = complaint(&["run"], 2);
    assert!(said.contains("required"), "{said}");
    let said = complaint(&["run", "--keep", keep, "--smaple", "64k", "true"], 2);
    assert!(said.contains("run has no option --smaple"), "{said}");
    let said = complaint(&["run", "--sample", "lots", "true"], 2);
    assert!(said.contains("a size looks like"), "{said}");
    let comma = directory.path().join("a,b");
    let said = complaint(&["run", "--keep", comma.to_str().unwrap(), "true"], 2);
    assert!(said.contains("comma"), "{said}");
}

#[test]
fn a_program_that_goes_into_the_background_is_named() {
    let place = Place::new();
    let program = place.program.display();
    // The shell ends at once; what it started goes on until its input does.
    let fifo = place.directory.path().join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let fifo_path = fifo.display();
    let script = format!(
        "{program} < {fifo_path} > /dev/null 2>&1 & exec 3> {fifo_path}; sleep 5; exec sleep 60 > /dev/null 2>&1 3>&3 &"
    );
    let mut run = Observed::start_with(&["--json"], &["sh", "-c", &script], |command| {
        command.stdin(Stdio::null());
    });
    let (code, said) = {
        let status = run.runner.wait().unwrap();
        let mut said = String::new();
        // Others hold the pipe still, so it is read up to the line that is wanted.
        std::io::BufRead::read_line(&mut run.errors(), &mut said).unwrap();
        (status.code().unwrap(), said)
    };
    assert_eq!(code, 0, "{said}");
    let it = summary(&said);
    let still = it["still_running"].as_array().unwrap().clone();
    for pid in &still {
        let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
    }
    assert!(!still.is_empty(), "{it:#}");
}

#[test]
fn a_directory_that_was_kept_before_is_told_of_the_last_run_only() {
    let place = Place::new();
    let kept = place.directory.path().join("kept");
    let program = place.program.to_str().unwrap();
    let run = |arguments: &[&str]| {
        let start = [
            "run",
            "--json",
            "--keep",
            kept.to_str().unwrap(),
            "--",
            program,
        ];
        let output = freehold(&[&start[..], arguments].concat());
        summary(&text(&output.stderr))
    };
    // The earlier one has more memory, more processes, and one that was killed.
    let first = run(&["fork"]);
    assert_eq!(
        (&first["processes"], first["died"].as_array().unwrap().len()),
        (&4.into(), 1)
    );
    let second = run(&["exit", "0"]);
    assert_eq!(second["heap"]["pid"], second["pid"], "{second:#}");
    assert_eq!(second["processes"], 1, "{second:#}");
    assert_eq!(second["died"].as_array().unwrap().len(), 0, "{second:#}");
    let next = second["next"].as_str().unwrap();
    assert!(
        next.contains(&format!("freehold-{}", second["pid"])),
        "{next}"
    );
    // The directory is a name of the last run, and what the first left is there as it was.
    let found: Value =
        serde_json::from_str(&answer(&["profile", kept.to_str().unwrap(), "--json"])).unwrap();
    assert_eq!(found["about"]["pid"], second["pid"]);
    let earlier = kept.join(format!("freehold-{}", first["heap"]["pid"]));
    let found: Value =
        serde_json::from_str(&answer(&["profile", earlier.to_str().unwrap(), "--json"])).unwrap();
    assert_eq!(found["about"]["pid"], first["heap"]["pid"]);
}

#[test]
fn without_samples_it_says_so_and_what_the_allocator_counted() {
    let place = Place::new();
    let mut run = place.start(&["--sample", "0"], &[]);
    assert_eq!(run.line(), "ready");
    let pid = run.pid().to_string();
    let top = answer(&["top", &pid, "--once"]);
    assert!(
        top.contains("sampling is off") && !top.contains("one sample in"),
        "{top}"
    );
    let (_, said, _) = run.end();
    assert!(said.contains("sampling was off"), "{said}");
    for wrong in ["0 B", "too little for a sample"] {
        assert!(!said.contains(wrong), "{wrong}: {said}");
    }
    let mut run = place.start(&["--sample", "0", "--json"], &[]);
    run.line();
    let (_, said, _) = run.end();
    let heap = &summary(&said)["heap"];
    let held = 320.0 * 100_000.0;
    for amount in ["live_bytes", "peak_bytes"] {
        let bytes = heap[amount].as_f64().unwrap();
        assert!(
            (held..held * 1.25).contains(&bytes),
            "{amount} {bytes} of {held}"
        );
    }
    assert_eq!(heap["sampled"], false);
}

#[test]
fn a_script_is_called_by_its_name_in_every_line() {
    if !installed("python3") {
        return skip("python3 is not installed");
    }
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("grows.py");
    fs::write(
        &script,
        "import os\nkept = [bytes(1000) for i in range(20000)]\nos._exit(3)\n",
    )
    .unwrap();
    let words = ["python3", script.to_str().unwrap()];
    let (_, said, _) = Observed::start(&["--sample", "16k"], &words).end();
    let first = said.lines().next().unwrap();
    assert!(first.starts_with("freehold: grows.py ("), "{said}");
    let (_, said, profiles) = Observed::start(&["--sample", "16k", "--json"], &words).end();
    let told = summary(&said);
    for name in [&told["program"], &told["heap"]["program"]] {
        assert_eq!(name, "grows.py", "{told:#}");
    }
    let kept = profiles.path().to_str().unwrap();
    let leaks = answer(&["leaks", kept]);
    assert!(leaks.starts_with("grows.py ("), "{leaks}");
    // And of a program that is none.
    let told = summary(&Observed::start(&["--json"], &["/bin/true"]).end().1);
    assert_eq!(told["program"], "true");
}

#[test]
fn a_daemon_that_goes_on_keeps_its_page() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(
        directory.path(),
        "made-daemon",
        "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
         int main(void) {\n\
             if (daemon(1, 0)) return 1;\n\
             usleep(100000);\n\
             for (int i = 0; i < 400; i++) { memset(malloc(100000), 1, 100000); usleep(10000); }\n\
             return 0;\n\
         }\n",
        &["-D_GNU_SOURCE"],
    );
    let output = freehold(&["run", program.to_str().unwrap()]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("still run"), "{said}");
    let profile = wait_for("a sample of the daemon", || {
        let output = freehold(&["profile", "made-daemon", "--json"]);
        output.status.success().then(|| text(&output.stdout))
    });
    assert!(profile.contains("made-daemon"), "{profile}");
    let left = wait_for("the daemon's end", || {
        let said = text(&freehold(&["profile", "made-daemon"]).stdout);
        said.contains("ended after").then_some(said)
    });
    assert!(left.contains("main"), "{left}");
    for line in answer(&["run", "--list"]).lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        if name.starts_with("made-daemon.") {
            answer(&["run", "--clean", name]);
        }
    }
}
