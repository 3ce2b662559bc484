//! `{% generation %} … {% endgeneration %}`: transformers' marks around what an assistant writes, which Jinja does not know.
//!
//! The tags become Jinja that prints one of two characters no text may hold; they are taken out of the rendering again, and
//! where they stood are the marked ranges. Like transformers' blocks, they keep what is `set` inside to themselves.

use std::ops::Range;

/// Unicode guarantees that these never are characters.
const OPEN: char = '\u{10fffe}';
const CLOSE: char = '\u{10ffff}';

/// Whether `text` holds one of the two characters.
pub fn collide(text: &str) -> bool {
    text.contains([OPEN, CLOSE])
}

/// The template with its marks as Jinja; none when it has no marks.
pub fn rewrite(template: &str) -> Option<String> {
    let mut out = String::with_capacity(template.len() + 64);
    let mut found = false;
    let mut rest = template;
    while let Some(start) = rest.find("{%").into_iter().chain(rest.find("{#")).min() {
        out.push_str(&rest[..start]);
        let close = match rest[start..].starts_with("{#") {
            true => "#}",
            false => "%}",
        };
        let Some(length) = rest[start..].find(close) else {
            rest = &rest[start..];
            break;
        };
        let (tag, after) = rest[start..].split_at(length + 2);
        match mark(tag) {
            Some(jinja) => {
                found = true;
                out.push_str(&jinja);
            }
            None => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    found.then_some(out)
}

/// What stands for `tag` when it is one of the two marks. Its signs for white space (`-`, `+`) stay on the outer sides.
fn mark(tag: &str) -> Option<String> {
    let inner = tag.strip_prefix("{%")?.strip_suffix("%}")?;
    let left = &inner[..inner.len().min(usize::from(inner.starts_with(['-', '+'])))];
    let right = &inner[inner.len() - usize::from(inner.ends_with(['-', '+']) && inner.len() > 1)..];
    match inner[left.len()..inner.len() - right.len()].trim() {
        "generation" => Some(format!(
            "{{%{left} with %}}{{{{ \"{OPEN}\" }}}}{{% if true {right}%}}"
        )),
        "endgeneration" => Some(format!(
            "{{%{left} endif %}}{{{{ \"{CLOSE}\" }}}}{{% endwith {right}%}}"
        )),
        _ => None,
    }
}

/// The rendering without its marks, and the marked ranges, in bytes; none when they are not in pairs.
pub fn take(rendered: &str) -> Option<(String, Vec<Range<usize>>)> {
    let mut text = String::with_capacity(rendered.len());
    let mut ranges = Vec::new();
    let mut open = None;
    for c in rendered.chars() {
        match (c, open) {
            (OPEN, None) => open = Some(text.len()),
            (CLOSE, Some(start)) => {
                ranges.push(start..text.len());
                open = None;
            }
            (OPEN | CLOSE, _) => return None,
            _ => text.push(c),
        }
    }
    open.is_none().then_some((text, ranges))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tags_are_rewritten_and_keep_their_signs_for_white_space() {
        let template = "{# {% generation %} #}{% if a %}{%- generation -%}x{% endgeneration +%}{% endif %}{{ '{%' }}";
        let expected = format!(
            "{{# {{% generation %}} #}}{{% if a %}}{{%- with %}}{{{{ \"{OPEN}\" }}}}{{% if true -%}}x{{% endif %}}{{{{ \"{CLOSE}\" }}}}{{% endwith +%}}{{% endif %}}{{{{ '{{%' }}}}"
        );
        assert_eq!(rewrite(template).unwrap(), expected);
        assert_eq!(rewrite("{% for x in y %}{% endfor %}"), None);
        assert_eq!(rewrite("{%%}{%-%}{% generation"), None);
    }

    #[test]
    fn ranges_are_those_of_the_text_without_marks() {
        let marked = format!("ab{OPEN}cé{CLOSE}d{OPEN}{CLOSE}");
        let (text, ranges) = take(&marked).unwrap();
        assert_eq!(text, "abcéd");
        assert_eq!(ranges, [2..5, 6..6]);
        assert_eq!(take(&format!("{OPEN}a")), None);
        assert_eq!(take(&format!("{CLOSE}a{OPEN}")), None);
    }
}
