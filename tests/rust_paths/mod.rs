//! What a Rust file names: its tokens without comments, texts and unit tests, and the places that
//! its paths lead to.

/// The tokens of a file; comments, texts and characters are left out.
pub fn tokens(text: &str) -> Vec<&str> {
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let len = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => comment(rest),
            '"' => quoted(rest),
            '\'' => character(rest),
            _ if first.is_whitespace() => first.len_utf8(),
            _ if first.is_alphanumeric() || first == '_' => {
                let word = |c: char| c.is_alphanumeric() || c == '_';
                let len = rest.find(|c| !word(c)).unwrap_or(rest.len());
                match raw(&rest[..len], &rest[len..]) {
                    Some(more) => len + more,
                    None => {
                        out.push(&rest[..len]);
                        len
                    }
                }
            }
            _ => {
                let len = if rest.starts_with("::") { 2 } else { first.len_utf8() };
                out.push(&rest[..len]);
                len
            }
        };
        rest = &rest[len..];
    }
    out
}

/// The length of a comment that may hold others.
fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while let Some(next) = text.as_bytes().get(at..at + 2) {
        match next {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The length of a text in quotes.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            _ => escaped = c == '\\' && !escaped,
        }
    }
    text.len()
}

/// The length of a character, or of the quote before a lifetime.
fn character(text: &str) -> usize {
    let mut inside = text[1..].chars();
    match inside.next() {
        // The escaped one may be a quote.
        Some('\\') => text[3..].find('\'').map_or(text.len(), |at| at + 4),
        Some(c) if inside.next() == Some('\'') => c.len_utf8() + 2,
        _ => 1,
    }
}

/// The length of what follows `word` if the two begin a raw text.
fn raw(word: &str, after: &str) -> Option<usize> {
    let marks = after.len() - after.trim_start_matches('#').len();
    if !matches!(word, "r" | "br" | "cr") || !after[marks..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", &after[..marks]);
    let inside = &after[marks + 1..];
    Some(marks + 1 + inside.find(&end).map_or(inside.len(), |at| at + end.len()))
}

/// The tokens without those of unit tests that stand in the file itself.
pub fn without_tests<'a>(tokens: &[&'a str]) -> Vec<&'a str> {
    let (mut out, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        if tokens[at..].starts_with(&["mod", "tests", "{"]) {
            at += 3;
            let mut depth = 1;
            while depth > 0 && at < tokens.len() {
                depth += i32::from(tokens[at] == "{") - i32::from(tokens[at] == "}");
                at += 1;
            }
        } else {
            out.push(tokens[at]);
            at += 1;
        }
    }
    out
}

/// Where the paths of a file lead to that begin with `crate`, `super` or `self`, each from the root
/// of the crate. What a `*` takes ends in one; the root itself under another name is `as`.
pub fn paths<'a>(file: &'a str, tokens: &[&'a str]) -> Vec<Vec<&'a str>> {
    let module = file.trim_start_matches("src/").trim_end_matches(".rs");
    let mut module: Vec<&str> = module.split('/').collect();
    module.pop_if(|last| matches!(*last, "mod" | "lib"));
    // The braces around a token, and which of them are those of a module.
    let mut braces = Vec::new();
    let mut out = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "{" => {
                let named = at >= 2 && tokens[at - 2] == "mod";
                braces.push(named);
                module.extend(named.then(|| tokens[at - 1]));
            }
            "}" => {
                let ended = braces.pop() == Some(true);
                module.truncate(module.len() - usize::from(ended));
            }
            "crate" | "super" | "self" if at == 0 || tokens[at - 1] != "::" => {
                let here = if *token == "crate" { Vec::new() } else { module.clone() };
                segment(tokens, at, here, &mut out);
            }
            _ => {}
        }
    }
    out
}

/// Goes on from the segment at `at` of a path that led to `here`; says where the path ends.
fn segment<'a>(
    tokens: &[&'a str],
    mut at: usize,
    mut here: Vec<&'a str>,
    out: &mut Vec<Vec<&'a str>>,
) -> usize {
    loop {
        match tokens[at] {
            "crate" | "self" => {}
            "super" => drop(here.pop()),
            "{" => {
                at += 1;
                while at < tokens.len() && tokens[at] != "}" {
                    at = if tokens[at] == "," {
                        at + 1
                    } else {
                        segment(tokens, at, here.clone(), out)
                    };
                }
                return at + 1;
            }
            name => here.push(name),
        }
        at += 1;
        if tokens.get(at) != Some(&"::") || at + 1 == tokens.len() {
            break;
        }
        at += 1;
    }
    if tokens.get(at) == Some(&"as") {
        if here.is_empty() {
            here.push("as");
        }
        at += 2;
    }
    out.push(here);
    at
}
