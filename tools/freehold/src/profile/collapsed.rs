//! Stacks one a line, as flame graph tools read them: `main;load;parse 12345`, the number being bytes.

use profile_file::View;

use super::stacks::Stacks;

pub fn report(stacks: &Stacks, view: View) -> String {
    let mut text = String::new();
    for entry in &stacks.entries {
        let bytes = entry.amount(view).bytes.round();
        if bytes <= 0.0 {
            continue;
        }
        let names: Vec<String> = entry
            .frames
            .iter()
            .rev()
            .map(|&place| clean(&stacks.frames[place].function))
            .collect();
        let stack = if names.is_empty() {
            "(no stack)".to_owned()
        } else {
            names.join(";")
        };
        text.push_str(&format!("{stack} {bytes:.0}\n"));
    }
    text
}

/// A semicolon and a line's end have a meaning here.
fn clean(name: &str) -> String {
    name.replace([';', '\n', '\r'], ":")
}
