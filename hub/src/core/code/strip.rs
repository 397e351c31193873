//! TypeScript → JavaScript by blanking: every other character keeps its line and column.

use oxc_ast::ast::*;
use oxc_ast_visit::{Visit, walk};
use oxc_span::{GetSpan, Span};
use oxc_syntax::scope::ScopeFlags;

/// Modifier words of class members that mean nothing at run time.
const MODIFIERS: &[&str] =
    &["public", "private", "protected", "readonly", "abstract", "override", "declare"];

/// Blanks type syntax in `out` while walking the tree of `source`.
pub(super) struct Strip<'s> {
    source: &'s str,
    out: Vec<u8>,
    /// Syntax that has no plain form: where, and what.
    pub(super) refused: Vec<(u32, &'static str)>,
}

impl<'s> Strip<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        Strip { source, out: source.as_bytes().to_vec(), refused: Vec::new() }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// Overwrites bytes at `from` with `text`; the caller knows that only blanks stand there.
    pub(super) fn put(&mut self, from: u32, text: &str) {
        let from = from as usize;
        if let Some(place) = self.out.get_mut(from..from + text.len()) {
            place.copy_from_slice(text.as_bytes());
        }
    }

    /// Turns bytes into spaces; line breaks stay.
    pub(super) fn blank(&mut self, from: u32, to: u32) {
        for byte in self.out.get_mut(from as usize..to as usize).unwrap_or_default() {
            if *byte != b'\n' && *byte != b'\r' {
                *byte = b' ';
            }
        }
    }

    fn blank_span(&mut self, span: Span) {
        self.blank(span.start, span.end);
    }

    /// A statement that vanishes leaves a semicolon, so that its neighbours do not join.
    pub(super) fn drop_statement(&mut self, span: Span) {
        self.blank_span(span);
        if span.end > span.start {
            self.put(span.start, ";");
        }
    }

    /// Blanks the first `mark` between two places that is not inside a comment.
    fn blank_mark(&mut self, from: u32, to: u32, mark: u8) {
        if let Some(at) = self.tokens(from, to).find(|at| self.byte(*at) == mark) {
            self.blank(at, at + 1);
        }
    }

    /// Blanks the given words between two places, comments aside.
    fn blank_words(&mut self, from: u32, to: u32, words: &[&str]) {
        let mut found = Vec::new();
        let mut start = None;
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$';
        for at in self.tokens(from, to).chain([to]) {
            let inside = at < to && is_word(self.byte(at));
            match (start, inside) {
                (None, true) => start = Some(at),
                (Some(first), false) => {
                    found.push((first, at));
                    start = None;
                }
                (None, false) | (Some(_), true) => {}
            }
        }
        for (first, end) in found {
            // A word may run into a comment; only its letters count.
            let text = self.source.get(first as usize..end as usize).unwrap_or("");
            let word = text.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or("");
            if words.contains(&word) {
                self.blank(first, first + u32::try_from(word.len()).unwrap_or(0));
            }
        }
    }

    fn byte(&self, at: u32) -> u8 {
        self.source.as_bytes().get(at as usize).copied().unwrap_or(b' ')
    }

    /// Offsets between two places that are outside comments.
    fn tokens(&self, from: u32, to: u32) -> impl Iterator<Item = u32> + use<> {
        let text = self.source.get(from as usize..to as usize).unwrap_or("").as_bytes();
        let mut places = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let rest = text.get(at..).unwrap_or(&[]);
            if rest.starts_with(b"/*") {
                let close = rest.windows(2).skip(2).position(|pair| pair == b"*/");
                at += close.map_or(rest.len(), |found| found + 4);
            } else if rest.starts_with(b"//") {
                at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            } else {
                places.push(from + u32::try_from(at).unwrap_or(0));
                at += 1;
            }
        }
        places.into_iter()
    }

    fn refuse(&mut self, at: u32, what: &'static str) {
        self.refused.push((at, what));
    }
}

impl<'a> Visit<'a> for Strip<'_> {
    fn visit_ts_type_annotation(&mut self, it: &TSTypeAnnotation<'a>) {
        self.blank_span(it.span);
    }

    fn visit_ts_type_parameter_declaration(&mut self, it: &TSTypeParameterDeclaration<'a>) {
        self.blank_span(it.span);
    }

    fn visit_ts_type_parameter_instantiation(&mut self, it: &TSTypeParameterInstantiation<'a>) {
        self.blank_span(it.span);
    }

    fn visit_ts_as_expression(&mut self, it: &TSAsExpression<'a>) {
        self.visit_expression(&it.expression);
        self.blank(it.expression.span().end, it.span.end);
    }

    fn visit_ts_satisfies_expression(&mut self, it: &TSSatisfiesExpression<'a>) {
        self.visit_expression(&it.expression);
        self.blank(it.expression.span().end, it.span.end);
    }

    fn visit_ts_non_null_expression(&mut self, it: &TSNonNullExpression<'a>) {
        self.visit_expression(&it.expression);
        self.blank(it.expression.span().end, it.span.end);
    }

    fn visit_ts_type_assertion(&mut self, it: &TSTypeAssertion<'a>) {
        self.blank(it.span.start, it.expression.span().start);
        self.visit_expression(&it.expression);
    }

    fn visit_ts_this_parameter(&mut self, it: &TSThisParameter<'a>) {
        self.blank_span(it.span);
        let rest = self.source.as_bytes().get(it.span.end as usize..).unwrap_or(&[]);
        let gap = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if rest.get(gap) == Some(&b',') {
            let comma = it.span.end + u32::try_from(gap).unwrap_or(0);
            self.blank(comma, comma + 1);
        }
    }

    fn visit_formal_parameter(&mut self, it: &FormalParameter<'a>) {
        if it.accessibility.is_some() || it.readonly || it.r#override {
            self.refuse(it.span.start, "a parameter property");
        }
        if it.optional {
            let end = it.type_annotation.as_ref().map_or(it.span.end, |kind| kind.span.start);
            self.blank_mark(it.pattern.span().end, end, b'?');
        }
        walk::walk_formal_parameter(self, it);
    }

    fn visit_variable_declarator(&mut self, it: &VariableDeclarator<'a>) {
        if it.definite {
            let end = it.type_annotation.as_ref().map_or(it.span.end, |kind| kind.span.start);
            self.blank_mark(it.id.span().end, end, b'!');
        }
        walk::walk_variable_declarator(self, it);
    }

    fn visit_class(&mut self, it: &Class<'a>) {
        if it.r#abstract {
            self.blank_words(it.span.start, it.body.span.start, &["abstract"]);
        }
        walk::walk_class(self, it);
        if let (Some(first), Some(last)) = (it.implements.first(), it.implements.last()) {
            let head =
                self.source.get(it.span.start as usize..first.span.start as usize).unwrap_or("");
            if let Some(at) = head.rfind("implements") {
                self.blank(it.span.start + u32::try_from(at).unwrap_or(0), last.span.end);
            }
        }
    }

    fn visit_class_element(&mut self, it: &ClassElement<'a>) {
        match it {
            ClassElement::TSIndexSignature(index) => self.blank_span(index.span),
            ClassElement::MethodDefinition(method) => {
                if method.value.body.is_none() {
                    self.blank_span(method.span);
                    return;
                }
                self.blank_words(method.span.start, method.key.span().start, MODIFIERS);
                if method.optional {
                    self.blank_mark(method.key.span().end, method.value.params.span.start, b'?');
                }
                walk::walk_class_element(self, it);
            }
            ClassElement::PropertyDefinition(field) => {
                if field.declare
                    || field.r#type == PropertyDefinitionType::TSAbstractPropertyDefinition
                {
                    self.blank_span(field.span);
                    return;
                }
                self.blank_words(field.span.start, field.key.span().start, MODIFIERS);
                let value = field.value.as_ref().map(|value| value.span().start);
                let kind = field.type_annotation.as_ref().map(|kind| kind.span.start);
                let end = kind.or(value).unwrap_or(field.span.end);
                if field.optional {
                    self.blank_mark(field.key.span().end, end, b'?');
                }
                if field.definite {
                    self.blank_mark(field.key.span().end, end, b'!');
                }
                walk::walk_class_element(self, it);
            }
            ClassElement::AccessorProperty(field) => {
                self.refuse(field.span.start, "an `accessor` field");
            }
            ClassElement::StaticBlock(_) => walk::walk_class_element(self, it),
        }
    }

    fn visit_function(&mut self, it: &Function<'a>, flags: ScopeFlags) {
        if it.body.is_none() || it.declare {
            self.drop_statement(it.span);
            return;
        }
        walk::walk_function(self, it, flags);
    }

    fn visit_decorator(&mut self, it: &Decorator<'a>) {
        self.refuse(it.span.start, "a decorator");
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the tree's own enum; all else is walked")]
    fn visit_statement(&mut self, it: &Statement<'a>) {
        match it {
            Statement::TSInterfaceDeclaration(gone) => self.drop_statement(gone.span),
            Statement::TSTypeAliasDeclaration(gone) => self.drop_statement(gone.span),
            Statement::TSExternalModuleDeclaration(gone) => self.drop_statement(gone.span),
            Statement::TSGlobalDeclaration(gone) => self.drop_statement(gone.span),
            Statement::TSEnumDeclaration(gone) if gone.declare => self.drop_statement(gone.span),
            Statement::TSEnumDeclaration(kept) => self.refuse(kept.span.start, "an `enum`"),
            Statement::TSNamespaceDeclaration(gone) if gone.declare => {
                self.drop_statement(gone.span);
            }
            Statement::TSNamespaceDeclaration(kept) => {
                self.refuse(kept.span.start, "a `namespace`");
            }
            Statement::TSImportEqualsDeclaration(kept) => {
                self.refuse(kept.span.start, "an `import`");
            }
            Statement::TSExportAssignment(kept) => self.refuse(kept.span.start, "an `export =`"),
            Statement::VariableDeclaration(gone) if gone.declare => self.drop_statement(gone.span),
            Statement::ClassDeclaration(gone) if gone.declare => self.drop_statement(gone.span),
            Statement::ImportDeclaration(gone) if gone.import_kind.is_type() => {
                self.drop_statement(gone.span);
            }
            Statement::ImportDeclaration(kept) => self.refuse(kept.span.start, "an `import`"),
            Statement::ExportFromDeclaration(kept) => {
                self.refuse(kept.span.start, "an `export … from`");
            }
            Statement::ExportAllDeclaration(kept) => {
                self.refuse(kept.span.start, "an `export … from`");
            }
            _ => walk::walk_statement(self, it),
        }
    }
}
