// SPDX-License-Identifier: Apache-2.0
//! Finds the line of an element in a JSON text.

use std::collections::HashMap;

use serde_json::value::RawValue;

/// Line, from 1, of the element at `place` (such as `targets[0].luns[1].path`) in the JSON `text`. If it is missing, the line of
/// the innermost existing element around it. `None` if `text` is not JSON.
pub(super) fn line_of(text: &str, place: &str) -> Option<usize> {
    let mut here: &RawValue = serde_json::from_str(text).ok()?;
    for step in place.split(['.', '[']) {
        let inner = match step.strip_suffix(']') {
            Some(index) => element(here, index),
            None => member(here, step),
        };
        match inner {
            Some(inner) => here = inner,
            None => break,
        }
    }
    // Borrowed values are slices of `text`.
    let offset = here.get().as_ptr().addr() - text.as_ptr().addr();
    let before = text.get(..offset)?;
    Some(before.bytes().filter(|&byte| byte == b'\n').count() + 1)
}

fn element<'a>(list: &'a RawValue, index: &str) -> Option<&'a RawValue> {
    let index: usize = index.parse().ok()?;
    let elements: Vec<&RawValue> = serde_json::from_str(list.get()).ok()?;
    elements.get(index).copied()
}

fn member<'a>(object: &'a RawValue, name: &str) -> Option<&'a RawValue> {
    let members: HashMap<String, &RawValue> = serde_json::from_str(object.get()).ok()?;
    members.get(name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
{
  "version": 2,
  "targets": [
    {"name": "a"},
    {
      "name": "b", "luns": [
        {"number": 0},
        {
          "number":
             1,
          "path": "x"
        }
      ]
    }
  ]
}"#;

    #[test]
    fn elements_are_found_by_line() {
        for (place, line) in [
            ("version", 3),
            ("targets", 4),
            ("targets[0].name", 5),
            ("targets[1]", 6),
            ("targets[1].luns[0].number", 8),
            ("targets[1].luns[1]", 9),
            ("targets[1].luns[1].number", 11),
            ("targets[1].luns[1].path", 12),
        ] {
            assert_eq!(line_of(TEXT, place), Some(line), "{place}");
        }
    }

    #[test]
    fn a_missing_element_has_the_line_of_the_one_around_it() {
        assert_eq!(line_of(TEXT, "targets[1].luns[1].uuid"), Some(9));
        assert_eq!(line_of(TEXT, "targets[7].name"), Some(4));
        assert_eq!(line_of(TEXT, "portals[0]"), Some(2));
        assert_eq!(line_of("{", "portals"), None);
    }
}
