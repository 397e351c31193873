//! JSON Schema → TypeScript: one type printer for the signatures of `search` and the declarations of
//! `describe`.
//!
//! `schema` turns a tool's schemas into a small tree, `tree` is that tree, `print` writes it, `declare`
//! fills a budget with declarations. Whatever a schema says, what is printed parses as TypeScript.

mod declare;
mod print;
mod schema;
mod tree;

#[cfg(test)]
mod tests;

pub use declare::{Declared, NamespaceTools, Target, declare};

use crate::model::contract::Contract;
use print::{Layout, Printer};
use schema::ToolTypes;

/// Characters of a one-line signature before its input is cut.
const SIGNATURE_CHARS: usize = 320;

/// One line: `namespace.tool(input: { … }): Promise<Result>`.
#[must_use]
pub fn signature(namespace: &str, tool: &str, contract: &Contract) -> String {
    let types = ToolTypes::of(tool, contract);
    let mut printer = Printer::new(Layout::OneLine { chars_max: SIGNATURE_CHARS });
    let input = printer.input(&types.signature_input());
    let output = printer.show(&types.output());
    format!("{namespace}.{tool}({input}): Promise<{output}>")
}
