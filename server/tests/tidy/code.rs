//! Just enough of Rust's grammar to tell code from comments and strings.

/// `text` with comments and the contents of strings and characters blanked; lines and columns
/// stay where they were.
pub(crate) fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = skipped_end(&chars, at);
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            out.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

/// Where the comment or literal that begins at `at` ends; `at` when none begins there.
fn skipped_end(chars: &[char], at: usize) -> usize {
    let next = |offset: usize| chars.get(at + offset).copied().unwrap_or(' ');
    let after_name = at > 0 && is_name(chars[at - 1]);
    match chars[at] {
        '/' if next(1) == '/' => position(chars, at, |c| c == '\n'),
        '/' if next(1) == '*' => block_comment_end(chars, at),
        '"' => string_end(chars, at),
        'r' if !after_name || chars[at - 1] == 'b' => raw_string_end(chars, at).unwrap_or(at),
        '\'' if next(1) == '\\' => position(chars, at + 3, |c| c == '\'') + 1,
        '\'' if next(2) == '\'' => at + 3,
        _ => at,
    }
}

fn position(chars: &[char], from: usize, found: impl Fn(char) -> bool) -> usize {
    let tail = chars.get(from..).unwrap_or_default();
    from.min(chars.len()) + tail.iter().position(|c| found(*c)).unwrap_or(tail.len())
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (0_u32, at);
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') if depth == 1 => return i + 2,
            ('*', '/') => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
    }
    chars.len()
}

fn string_end(chars: &[char], at: usize) -> usize {
    let mut i = at + 1;
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

fn raw_string_end(chars: &[char], at: usize) -> Option<usize> {
    let quote = position(chars, at + 1, |c| c != '#');
    let hashes = quote - at - 1;
    if chars.get(quote) != Some(&'"') {
        return None;
    }
    let closing: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let rest = chars[quote + 1..].windows(closing.len()).position(|w| w == closing);
    Some(rest.map_or(chars.len(), |i| quote + 1 + i + closing.len()))
}

pub(crate) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// How many lines stand before the inline test module.
pub(crate) fn first_test_line(code: &str) -> Option<usize> {
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    lines.windows(2).position(|pair| {
        pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
    })
}

/// Byte offsets at which `word` stands as a whole name.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = code[..*at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

/// The line of a byte offset, from 1.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

#[test]
fn comments_and_strings_are_blanked_and_lines_stay() {
    let text = "let a = \"x // y\"; // unsafe\n/* a /* b */ c\n*/ let q = '\"'; r#\"unsafe \" {\"#; b'\\''; &'a str";
    let code = code_only(text);
    assert_eq!(code.lines().count(), 3);
    assert!(!code.contains("unsafe") && !code.contains('"') && !code.contains('x'), "{code}");
    assert!(
        code.contains("let a =") && code.contains("let q =") && code.contains("&'a str"),
        "{code}"
    );
}

#[test]
fn words_are_whole() {
    assert_eq!(
        words("sqlx::query, my_sqlx, sqlx_core, sqlx!", "sqlx").collect::<Vec<_>>(),
        [0, 33]
    );
}
