//! The code pipeline: what a model sends → the body of an async function in plain JavaScript.
//!
//! `fence` finds the code in the text, `shape` makes it return something, `strip` blanks TypeScript.
//! Lines and columns stay what they were in the text as given, so that errors point into it.

mod fence;
mod problem;
mod shape;
mod strip;

use crate::model::error::{ErrorCode, Failure};

/// Bytes of stack that one byte of code may need: the parser recurses once per open bracket, through some
/// twenty functions each. Only what is really used becomes memory.
const STACK_BYTES_PER_BYTE: usize = 8 * 1024;
/// Bytes of stack for code that does not nest.
const STACK_BYTES_LEAST: usize = 1 << 20;

/// Code that is ready to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// Body of an async function. Its first line is the hub's own; the code as given starts on the
    /// second.
    pub body: String,
    /// One line per rewrite, so that the model learns what changed.
    pub notices: Vec<String>,
}

/// Prepares `text`, which may have at most `bytes_max` bytes.
///
/// # Errors
/// `code_too_large`, `syntax_error` or `unsupported_syntax`, with line, column and source line.
pub fn prepare(text: &str, bytes_max: u64) -> Result<Prepared, Failure> {
    if text.len() as u64 > bytes_max {
        let message = format!("the code has {} bytes; at most {bytes_max} are allowed", text.len());
        return Err(Failure::new(ErrorCode::CodeTooLarge, message));
    }
    let mut notices = Vec::new();
    let source = match fence::fenced(text) {
        Some(block) => {
            notices.push("Took the code out of the fenced block; send plain code.".to_owned());
            block
        }
        None => text.to_owned(),
    };
    if let Some(at) = source.find('\0') {
        return Err(problem::at(
            &source,
            at,
            ErrorCode::SyntaxError,
            "a NUL character cannot stand in code",
        ));
    }
    let stack_bytes = STACK_BYTES_LEAST + source.len() * STACK_BYTES_PER_BYTE;
    let body = stacker::grow(stack_bytes, || shape::shape(&source, &mut notices))?;
    Ok(Prepared { body, notices })
}

#[cfg(test)]
mod tests;
