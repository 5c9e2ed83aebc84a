//! OpenMetrics text as JSON, for those who have no reader of the former: the same families, samples and values.

use serde_json::{Map, Value, json};

/// The families of a text that this command has made.
pub fn to_json(text: &str) -> Value {
    let mut families: Vec<Value> = Vec::new();
    for line in text.lines() {
        if let Some(about) = line.strip_prefix("# ") {
            let mut words = about.splitn(3, ' ');
            let (Some(what), Some(name), Some(rest)) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            if families.last().is_none_or(|family| family["name"] != name) {
                families.push(json!({ "name": name, "samples": [] }));
            }
            if let Some(family) = families.last_mut() {
                family[what.to_lowercase()] = unescaped(rest).into();
            }
        } else if let Some((sample, family)) = sample(line).zip(families.last_mut()) {
            if let Some(samples) = family["samples"].as_array_mut() {
                samples.push(sample);
            }
        }
    }
    json!({ "families": families })
}

/// `name{label="text",…} value`
fn sample(line: &str) -> Option<Value> {
    let (head, value) = line.rsplit_once(' ')?;
    let (name, labels) = match head.split_once('{') {
        Some((name, rest)) => (name, labels(rest.strip_suffix('}')?)?),
        None => (head, Map::new()),
    };
    // Whole numbers stay whole: a count of bytes may have more digits than a float.
    let value: Value = match value.parse::<u64>() {
        Ok(whole) => whole.into(),
        Err(_) => value.parse::<f64>().ok()?.into(),
    };
    Some(json!({ "name": name, "labels": labels, "value": value }))
}

fn labels(mut text: &str) -> Option<Map<String, Value>> {
    let mut found = Map::new();
    while let Some((name, rest)) = text.split_once("=\"") {
        let end = closing_quote(rest)?;
        found.insert(name.to_owned(), unescaped(&rest[..end]).into());
        text = rest[end + 1..].trim_start_matches(',');
    }
    Some(found)
}

/// Where the quote is that no backslash precedes, or an even number of them.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(place, letter)| {
        let ends = letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        ends.then_some(place)
    })
}

fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('n') => plain.push('\n'),
                Some(other) => plain.push(other),
                None => plain.push('\\'),
            },
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_samples_and_labels_are_those_of_the_text() {
        let text = "# HELP heap_bytes What \\\"it\\\" has.\n# TYPE heap_bytes gauge\n# UNIT heap_bytes bytes\n\
                    heap_bytes{site=\"f, \\\"g\\\"\\\\\",n=\"1\"} 18446744073709551615\nheap_bytes 0.5\n\
                    # TYPE other counter\nother_total 3\n# EOF\n";
        let found = to_json(text);
        assert_eq!(
            found,
            json!({"families": [
                {"name": "heap_bytes", "help": "What \"it\" has.", "type": "gauge", "unit": "bytes", "samples": [
                    {"name": "heap_bytes", "labels": {"site": "f, \"g\"\\", "n": "1"}, "value": u64::MAX},
                    {"name": "heap_bytes", "labels": {}, "value": 0.5},
                ]},
                {"name": "other", "type": "counter", "samples": [
                    {"name": "other_total", "labels": {}, "value": 3},
                ]},
            ]})
        );
    }
}
