//! The code pipeline: what a model sends → the body of an async function in plain JavaScript.
//!
//! `fence` finds the code in the text, `shape` makes it return something, `strip` blanks TypeScript.
//! Lines and columns stay what they were in the text as given, so that errors point into it.

mod fence;
mod problem;
mod shape;
mod strip;

use crate::model::error::{ErrorCode, Failure};
use crate::model::turn::Prepared;

/// Bytes of stack that one byte of code may need: the parser recurses once per open bracket, through some
/// twenty functions each. Only what is really used becomes memory.
const STACK_BYTES_PER_BYTE: usize = 8 * 1024;
/// Bytes of stack for code that does not nest.
const STACK_BYTES_LEAST: usize = 1 << 20;

/// Refuses code that is larger than `bytes_max`, before anything looks at it.
///
/// # Errors
/// `code_too_large`.
pub fn check_size(text: &str, bytes_max: u64) -> Result<(), Failure> {
    if text.len() as u64 > bytes_max {
        let message = format!("the code has {} bytes; at most {bytes_max} are allowed", text.len());
        return Err(Failure::new(ErrorCode::CodeTooLarge, message));
    }
    Ok(())
}

/// Looks up once what [`prepare`] needs of the system: where the stack ends. Call it before the process
/// gives up the right to ask.
pub fn get_ready() {
    stacker::remaining_stack();
}

/// Prepares `text`. The parser takes time and memory without bounds for some short texts, so what is not
/// trusted is prepared where that can be ended: in a sandbox.
///
/// # Errors
/// `syntax_error` or `unsupported_syntax`, with line, column and source line.
pub fn prepare(text: &str) -> Result<Prepared, Failure> {
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
