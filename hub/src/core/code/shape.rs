//! The forgiving part: common code shapes become the body of an async function that returns.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the parser's own enums; what is not named is left alone"
)]

use super::problem;
use super::strip::Strip;
use crate::model::error::{ErrorCode, Failure};
use oxc_allocator::Allocator;
use oxc_ast::ast::*;
use oxc_ast_visit::{Visit, walk};
use oxc_parser::{ParseOptions, Parser, ParserReturn};
use oxc_span::{GetSpan, SourceType, Span};
use oxc_syntax::scope::ScopeFlags;

/// Text to insert at an offset of the source.
type Insert = (u32, &'static str);

/// Name a default export is bound to; no code can know it.
const EXPORTED: &str = "const __d=";

/// Makes the body; adds one notice per rewrite.
pub(super) fn shape(source: &str, notices: &mut Vec<String>) -> Result<String, Failure> {
    let allocator = Allocator::default();
    let parsed = parse(&allocator, source);
    if is_object_literal(source, &parsed) {
        let inner = Allocator::default();
        let object = format!("({source}\n)");
        let again = parse(&inner, &object);
        if again.diagnostics.is_empty()
            && let [Statement::ExpressionStatement(_)] = again.program.body.as_slice()
        {
            notices.push("Returned the bare object; write `return` in front of it.".to_owned());
            return finish(&object, &again.program, vec![(0, "return (")], "")
                .map(|body| body + ")");
        }
    }
    if let Some(first) = parsed.diagnostics.iter().next() {
        let offset =
            first.labels.iter().next().map_or(source.len(), |label| label.offset() as usize);
        return Err(problem::at(source, offset, ErrorCode::SyntaxError, &first.message));
    }
    let (inserts, tail) = returning(source, &parsed.program, notices);
    finish(source, &parsed.program, inserts, &tail)
}

fn parse<'a>(allocator: &'a Allocator, source: &'a str) -> ParserReturn<'a> {
    let options = ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() };
    Parser::new(allocator, source, SourceType::ts().with_module(true)).with_options(options).parse()
}

/// `{ a: 1 }` parses as a block with a label and `{ a: 1, b: 2 }` not at all; both mean an object.
fn is_object_literal(source: &str, parsed: &ParserReturn<'_>) -> bool {
    if !source.trim_start().starts_with('{') {
        return false;
    }
    if !parsed.diagnostics.is_empty() {
        return true;
    }
    let [Statement::BlockStatement(block)] = parsed.program.body.as_slice() else { return false };
    matches!(block.body.as_slice(), [] | [Statement::LabeledStatement(_)])
}

/// Strips types, applies the inserts and refuses what has no plain form.
fn finish(
    source: &str,
    program: &Program<'_>,
    mut inserts: Vec<Insert>,
    tail: &str,
) -> Result<String, Failure> {
    let mut strip = Strip::new(source);
    for statement in &program.body {
        match statement {
            Statement::ExportDefaultDeclaration(export) => strip_default(&mut strip, export),
            Statement::ExportNamedDeclaration(gone) => strip.drop_statement(gone.span),
            Statement::ExportDeclaration(export) => {
                strip.blank(export.span.start, export.declaration.span().start);
                strip_declaration(&mut strip, &export.declaration);
            }
            other => strip.visit_statement(other),
        }
    }
    if let Some((offset, what)) = strip.refused.first() {
        let hint = if what.contains("import") || what.contains("export") {
            "There are no modules here: the user's sources are globals, see `describe`. Nothing ran."
        } else {
            ErrorCode::UnsupportedSyntax.hint()
        };
        let what = format!("{what} is not supported");
        return Err(problem::at(source, *offset as usize, ErrorCode::UnsupportedSyntax, &what)
            .with_hint(hint));
    }
    let mut out = strip.into_bytes();
    inserts.sort_by_key(|insert| std::cmp::Reverse(insert.0));
    let mut preamble = "";
    for (offset, text) in inserts {
        let at = (offset as usize).min(out.len());
        // At the start of a line it goes to the end of the one before, so that no column moves.
        let line = source.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
        let blank = source.get(line..at).is_some_and(|before| before.trim().is_empty());
        match (blank, line) {
            (true, 0) if at < source.len() => preamble = text,
            (true, line) if line > 0 && !ends_in_comment(source, line - 1) => {
                drop(out.splice(line - 1..line - 1, text.bytes()));
            }
            (_, _) => drop(out.splice(at..at, text.bytes())),
        }
    }
    out.splice(0..0, format!("{preamble}\n").bytes());
    let mut body = String::from_utf8(out)
        .map_err(|_| Failure::new(ErrorCode::Bug, "stripping types cut a character in half"))?;
    if !tail.is_empty() {
        body.push('\n');
        body.push_str(tail);
    }
    Ok(body)
}

fn strip_declaration(strip: &mut Strip<'_>, declaration: &Declaration<'_>) {
    match declaration {
        Declaration::TSInterfaceDeclaration(gone) => strip.drop_statement(gone.span),
        Declaration::TSTypeAliasDeclaration(gone) => strip.drop_statement(gone.span),
        Declaration::TSEnumDeclaration(kept) => strip.refused.push((kept.span.start, "an `enum`")),
        Declaration::TSNamespaceDeclaration(kept) => {
            strip.refused.push((kept.span.start, "a `namespace`"));
        }
        other => strip.visit_declaration(other),
    }
}

/// Could the line that ends at `end` end in a comment, which would swallow what is put there?
fn ends_in_comment(source: &str, end: usize) -> bool {
    let before = source.get(..end).unwrap_or("");
    before.lines().next_back().is_some_and(|line| line.contains("//"))
}

/// Blanks `export default` and binds what it exported.
fn strip_default(strip: &mut Strip<'_>, export: &ExportDefaultDeclaration<'_>) {
    let declared = export.declaration.span();
    strip.blank(export.span.start, declared.start);
    match &export.declaration {
        ExportDefaultDeclarationKind::FunctionDeclaration(function) => {
            if function.id.is_none() {
                strip.put(export.span.start, EXPORTED);
            }
            strip.visit_function(function, ScopeFlags::Function);
        }
        ExportDefaultDeclarationKind::ClassDeclaration(class) => {
            if class.id.is_none() {
                strip.put(export.span.start, EXPORTED);
            }
            strip.visit_class(class);
        }
        ExportDefaultDeclarationKind::TSInterfaceDeclaration(gone) => {
            strip.drop_statement(gone.span);
        }
        expression => {
            strip.put(export.span.start, EXPORTED);
            if let Some(expression) = expression.as_expression() {
                strip.visit_expression(expression);
            }
        }
    }
}

/// Where to insert a `return`, or what to add at the end, so that the body returns something.
fn returning(
    source: &str,
    program: &Program<'_>,
    notices: &mut Vec<String>,
) -> (Vec<Insert>, String) {
    let none = (Vec::new(), String::new());
    let export = program.body.iter().find_map(|statement| match statement {
        Statement::ExportDefaultDeclaration(export) => Some(export),
        _ => None,
    });
    if let Some(export) = export {
        notices.push("Unwrapped `export default`; write the body of an async function.".to_owned());
        return (Vec::new(), call_exported(&export.declaration));
    }
    let real: Vec<&Statement<'_>> =
        program.body.iter().filter(|statement| !is_type_only(statement)).collect();
    let called = |name: &str| (Vec::new(), format!("return await {name}();"));
    let lone_function = match real.as_slice() {
        [Statement::FunctionDeclaration(function)] => Some(function),
        [Statement::ExportDeclaration(export)] => match &export.declaration {
            Declaration::FunctionDeclaration(function) => Some(function),
            _ => None,
        },
        _ => None,
    };
    if let Some(id) = lone_function.and_then(|function| function.id.as_ref()) {
        notices.push(format!("Called the lone function `{}`; write its body directly.", id.name));
        return called(&id.name);
    }
    match real.as_slice() {
        [Statement::VariableDeclaration(variable)] => match variable.declarations.as_slice() {
            [one] if one.init.as_ref().is_some_and(|init| is_function(init)) => {
                match one.id.get_identifier_name() {
                    Some(name) => {
                        notices.push(format!(
                            "Called the lone function `{name}`; write its body directly."
                        ));
                        called(&name)
                    }
                    None => none,
                }
            }
            _ => none,
        },
        [Statement::ExpressionStatement(only)] if is_function(&only.expression) => {
            notices.push("Called the lone function; write its body directly.".to_owned());
            let span = only.expression.span();
            (vec![(span.start, "return await ("), (span.end, ")()")], String::new())
        }
        [.., Statement::ExpressionStatement(last)]
            if !returns(program) && !is_logging(source, last.span) =>
        {
            notices
                .push("Returned the final expression; write `return` in front of it.".to_owned());
            let span = last.expression.span();
            (vec![(span.start, "return ("), (span.end, ")")], String::new())
        }
        many if many.len() > 1
            && many.iter().all(|it| matches!(it, Statement::FunctionDeclaration(_))) =>
        {
            notices.push(
                "The code only declares functions, so nothing ran; call one and return its value."
                    .to_owned(),
            );
            none
        }
        _ => none,
    }
}

fn call_exported(exported: &ExportDefaultDeclarationKind<'_>) -> String {
    match exported {
        ExportDefaultDeclarationKind::FunctionDeclaration(function) => match &function.id {
            Some(id) => format!("return await {}();", id.name),
            None => "return await __d();".to_owned(),
        },
        ExportDefaultDeclarationKind::ClassDeclaration(_)
        | ExportDefaultDeclarationKind::TSInterfaceDeclaration(_) => String::new(),
        expression => {
            let called = expression.as_expression().is_some_and(is_function);
            if called { "return await __d();".to_owned() } else { "return __d;".to_owned() }
        }
    }
}

fn is_function(expression: &Expression<'_>) -> bool {
    matches!(
        expression.get_inner_expression(),
        Expression::ArrowFunctionExpression(_) | Expression::FunctionExpression(_)
    )
}

fn is_type_only(statement: &Statement<'_>) -> bool {
    matches!(
        statement,
        Statement::EmptyStatement(_)
            | Statement::TSInterfaceDeclaration(_)
            | Statement::TSTypeAliasDeclaration(_)
    )
}

/// `console.log(…)` at the end returns nothing worth having.
fn is_logging(source: &str, span: Span) -> bool {
    source.get(span.start as usize..).unwrap_or("").starts_with("console.")
}

/// Does a `return` stand anywhere in the body itself, functions inside it aside?
fn returns(program: &Program<'_>) -> bool {
    struct Finder(bool);
    impl<'a> Visit<'a> for Finder {
        fn visit_return_statement(&mut self, _: &ReturnStatement<'a>) {
            self.0 = true;
        }
        fn visit_function(&mut self, _: &Function<'a>, _: ScopeFlags) {}
        fn visit_arrow_function_expression(&mut self, _: &ArrowFunctionExpression<'a>) {}
        fn visit_class(&mut self, _: &Class<'a>) {}
    }
    let mut finder = Finder(false);
    for statement in &program.body {
        if finder.0 {
            break;
        }
        walk::walk_statement(&mut finder, statement);
        finder.visit_statement(statement);
    }
    finder.0
}
