//! Every code shape the hub forgives, and every one it refuses.

use super::*;

/// The body and its notices, or the failure, as one text.
fn shown(text: &str) -> String {
    match prepare(text) {
        Ok(Prepared { body, notices }) => {
            let notices: String = notices.iter().map(|line| format!("\n# {line}")).collect();
            format!("{}{notices}", body.strip_prefix('\n').unwrap_or(&body))
        }
        Err(failure) => {
            format!("{}: {}\n? {}", failure.code, failure.message, failure.hint.unwrap_or_default())
        }
    }
}

/// Each text, and under it what becomes of it.
fn table(texts: &[&str]) -> String {
    texts.iter().map(|text| format!("<<< {}\n{}\n\n", text.escape_debug(), shown(text))).collect()
}

#[test]
fn plain_bodies_are_left_alone() {
    for text in [
        "return 1",
        "const a = await x.y();\nreturn a",
        "for await (const a of b) { if (a) return a }",
        "",
    ] {
        assert_eq!(shown(text), text);
    }
}

#[test]
fn common_shapes_are_rewritten_with_a_notice_each() {
    insta::assert_snapshot!(table(&[
        "Here:\n```js\nreturn 1\n```\nDone.",
        "```ts\nconst a: number = 1;\na\n```",
        "export default async function run() { return 1 }",
        "export default async () => { return 1 }",
        "export default 42",
        "async function main() { return 1 }",
        "async () => { return 1 }",
        "(async () => { return 1 });",
        "const main = async () => 1;",
        "const a = 1;\na + 1;",
        "(async () => 1)()",
        "{ a: 1, b: 2 }",
        "{ a: 1 }",
        "function a() {}\nfunction b() {}",
        "export const a = 1;\nreturn a",
        "const a = 1; // one\na",
    ]));
}

#[test]
fn a_final_expression_is_not_returned_when_the_code_returns_by_itself_or_only_logs() {
    for text in ["if (a) { return 1 }\nb()", "console.log(1)", "try { return 1 } catch {}\nf()"] {
        assert_eq!(shown(text), text);
    }
    insta::assert_snapshot!(shown("const f = () => { return 1 };\nf()"));
}

#[test]
fn types_are_blanked_and_everything_else_stays_where_it_was() {
    let check = |text: &str, expected: &str| assert_eq!(shown(text), expected);
    check(
        "const a: Map<string, number> = new Map<string, number>();\nreturn a",
        "const a                      = new Map                ();\nreturn a",
    );
    check(
        "interface A { b: string }\ntype C = A;\nreturn 1",
        ";                        \n;          \nreturn 1",
    );
    check("return (x as any).y!.z satisfies T", "return (x       ).y .z            ");
    check(
        "function f<T>(this: X, a?: T, ...b: T[]): a is T { return a }\nreturn f(1)",
        "function f   (         a    , ...b     )         { return a }\nreturn f(1)",
    );
    check("import type { A } from 'a';\nreturn 1", ";                          \nreturn 1");
    check("let a!: number; return a", "let a         ; return a");
    check(
        "abstract class A<T> extends B<T> implements C, D { private readonly x?: T = 1; abstract y(): void; static z: T }\nreturn A",
        "         class A    extends B                    {                  x     = 1;                     static z    }\nreturn A",
    );
    check("declare const github: any;\nreturn github", ";                         \nreturn github");
    check("return <any>a", "return      a");
    check("const größe: number = 1; return größe", "const größe         = 1; return größe");
}

#[test]
fn what_cannot_run_is_refused_with_its_place() {
    insta::assert_snapshot!(table(&[
        "const a = 1;\nconst b = (;\n",
        "import fs from 'fs';\nreturn 1",
        "return 1;\nenum A { B }",
        "}; evil(); (async()=>{",
        "class A { constructor(private x: number) {} }\nreturn 1",
        "text\n```js\nconst a = ;\n```",
        "return 'a\0b'",
        "const größe = ;",
    ]));
}

#[test]
fn the_size_limit_is_exact_and_counts_bytes() {
    let exact = format!("//{}", "é".repeat(32_767));
    assert!(check_size(&exact, 65_536).is_ok());
    let over = check_size(&format!("{exact}x"), 65_536).unwrap_err();
    insta::assert_snapshot!(over, @"code_too_large: the code has 65537 bytes; at most 65536 are allowed");
}

#[test]
fn code_of_nothing_but_nesting_is_read_or_refused_and_never_breaks_the_hub() {
    // On a thread with as little stack as any of the hub's.
    let nested =
        ["(", "[", "{", "!", "- ", "a=>", "a:", "new ", "x?", "`${", "({a:", "if(1)", "let x:["];
    let read = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
        for part in nested {
            let text = part.repeat(65_536 / part.len());
            assert!(prepare(&text).is_err(), "{part}");
        }
        for (open, close) in [("(", ")"), ("[", "]"), ("a=>", ""), ("!", ""), ("{", "}")] {
            let times = 65_000 / (open.len() + close.len());
            let text = format!("{}1{}", open.repeat(times), close.repeat(times));
            assert!(prepare(&text).is_ok(), "{open}");
        }
        for part in ["+1", ".b", "()", "!", "[0]", "`x`"] {
            let text = format!("a{}", part.repeat(65_000 / part.len()));
            assert!(prepare(&text).is_ok(), "{part}");
        }
    });
    read.unwrap().join().unwrap();
}

#[test]
fn a_template_literal_with_fences_is_not_a_fenced_block() {
    let text = "const md = `\n```js\nx\n```\n`;\nreturn md";
    assert!(prepare(text).is_ok());
}

proptest::proptest! {
    #[test]
    fn no_text_panics_and_lines_never_move(text in "[a-z(){}:;=<>?!`\n '\"é/*]{0,60}") {
        if let Ok(prepared) = prepare(&text) {
            let lines = |text: &str| text.matches('\n').count();
            proptest::prop_assert!(lines(&prepared.body) >= lines(&text) || text.contains("```"));
        }
    }
}
