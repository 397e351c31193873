//! The largest fenced block of a text, at the lines it has there.

/// The body of the largest fenced block, with every line before it left empty; `None` without one.
pub(super) fn fenced(text: &str) -> Option<String> {
    let mut best: Option<(usize, Vec<&str>)> = None;
    let mut open: Option<(usize, usize, Vec<&str>)> = None;
    for (number, line) in text.lines().enumerate() {
        let ticks = line.trim_start().chars().take_while(|c| *c == '`').count();
        match &mut open {
            None if ticks >= 3 && opens(line) => open = Some((number + 1, ticks, Vec::new())),
            None => {}
            Some((first, opened, lines)) => {
                if ticks >= *opened && line.trim().chars().all(|c| c == '`') {
                    keep_larger(&mut best, *first, std::mem::take(lines));
                    open = None;
                } else {
                    lines.push(line);
                }
            }
        }
    }
    // A block that was opened on the first line and never closed is code all the same.
    if let Some((1, _, lines)) = open {
        keep_larger(&mut best, 1, lines);
    }
    let (first, lines) = best?;
    Some("\n".repeat(first) + &lines.join("\n"))
}

/// An opening fence has a language word after it at most; a template literal that happens to hold
/// three back-ticks has more.
fn opens(line: &str) -> bool {
    let word = line.trim().trim_start_matches('`');
    word.len() <= 20 && word.chars().all(|c| c.is_alphanumeric() || "+-_.{} =\"".contains(c))
}

fn keep_larger<'a>(best: &mut Option<(usize, Vec<&'a str>)>, first: usize, lines: Vec<&'a str>) {
    let size = |lines: &[&str]| lines.iter().map(|line| line.len() + 1).sum::<usize>();
    if best.as_ref().is_none_or(|(_, known)| size(&lines) > size(known)) {
        *best = Some((first, lines));
    }
}
