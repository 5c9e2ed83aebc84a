//! Libraries that are opened with `RTLD_DEEPBIND`: they find the C library's malloc before a preloaded one, and
//! a block that goes from them to the program reaches the wrong `free`. Freehold drops the flag.

use std::ffi::OsStr;

use super::elf::Facts;
use super::report::Finding;

/// What Freehold says with `verbose=1` for each library, behind the library's path.
const DROPPED: &str = "): RTLD_DEEPBIND is dropped";

/// Programs that open their plug-ins so: a function that is always a part of them, or how the file name of the library
/// that does it for them begins.
struct Known {
    name: &'static str,
    symbol: &'static str,
    library: &'static str,
}

const KNOWN: &[Known] = &[
    Known {
        name: "PHP",
        symbol: "php_module_startup",
        library: "libphp",
    },
    Known {
        name: "httpd (APR)",
        symbol: "apr_dso_load",
        library: "libapr-1.so",
    },
];

/// A program that is known to open libraries with that flag. `options` is what FREEHOLD holds.
pub fn in_program(facts: &Facts, options: Option<&OsStr>) -> Option<Finding> {
    let known = KNOWN.iter().find(|known| {
        facts.exports.iter().any(|name| name == known.symbol)
            || facts
                .needed
                .iter()
                .any(|file| file.starts_with(known.library))
    })?;
    let name = known.name;
    Some(if keeps(options) {
        Finding::blocks(
            "deepbind",
            format!("{name} opens libraries with RTLD_DEEPBIND, and deepbind=keep gives them the C library's malloc"),
        )
        .advise("take deepbind=keep out of FREEHOLD")
    } else {
        Finding::note(
            "deepbind",
            format!(
                "{name} opens libraries with RTLD_DEEPBIND; Freehold drops that flag (option deepbind)"
            ),
        )
    })
}

fn keeps(options: Option<&OsStr>) -> bool {
    // The last one counts.
    let options = options.unwrap_or_default().to_string_lossy();
    options
        .split(',')
        .rfind(|option| option.starts_with("deepbind="))
        == Some("deepbind=keep")
}

/// The library that a line of the trial is about.
pub fn dropped_for(line: &str) -> Option<&str> {
    let path = line.strip_prefix("freehold: dlopen(")?;
    path.split_once(DROPPED).map(|(path, _)| path)
}

/// What the trial has heard about such libraries.
pub fn in_trial(libraries: &[String]) -> Option<Finding> {
    let first = libraries.first()?;
    let more = match libraries.len() - 1 {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    Some(Finding::ok(
        "deepbind",
        format!("{first}{more}: opened with RTLD_DEEPBIND, which Freehold has dropped"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_option_counts() {
        assert!(!keeps(None));
        assert!(!keeps(Some(OsStr::new("verbose=1"))));
        assert!(keeps(Some(OsStr::new("deepbind=drop,deepbind=keep"))));
        assert!(!keeps(Some(OsStr::new("deepbind=keep,deepbind=drop"))));
    }

    #[test]
    fn a_line_names_its_library() {
        let line = "freehold: dlopen(/usr/lib/php/dom.so): RTLD_DEEPBIND is dropped, or the";
        assert_eq!(dropped_for(line), Some("/usr/lib/php/dom.so"));
        assert_eq!(dropped_for("freehold: version 0.1.0 is active"), None);
    }

    #[test]
    fn all_libraries_are_counted() {
        assert!(in_trial(&[]).is_none());
        let two = ["a.so".to_owned(), "b.so".to_owned()];
        let text = in_trial(&two).unwrap().text;
        assert_eq!(
            text,
            "a.so and 1 more: opened with RTLD_DEEPBIND, which Freehold has dropped"
        );
    }
}
