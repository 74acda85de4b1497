//! A document as one HTML file.

use super::{Block, Document, Table};
use crate::markup::{Markup, Writer};

/// Its style stands inside: the file is opened from a disk, far from our server.
const STYLE: &str = "body{font:14px/1.45 system-ui,'Noto Sans','Noto Sans CJK SC','WenQuanYi Micro \
     Hei',sans-serif;color:#14191c;background:#fff;max-width:62rem;margin:2rem auto;padding:0 1rem}\
     h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem;border-bottom:1px solid #9aa5a9}\
     h3{font-size:1rem}section+section{margin-top:4rem;break-before:page}\
     .warning{border:2px solid #8a5a00;padding:.5rem .8rem;font-weight:600}.mark{background:#6a3aa2;color:#fff;padding:.1em .5em}.note,footer{color:#566067}\
     table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\
     th,td{text-align:left;vertical-align:top;padding:.25em .6em .25em 0;border-bottom:1px solid #d7dddf}\
     .number{text-align:right}dl{display:grid;grid-template-columns:max-content 1fr;gap:.2em 1.2em}\
     dt{color:#566067}dd{margin:0;overflow-wrap:anywhere}svg{max-width:100%;height:auto}\
     svg text{font-size:7px}@media print{body{margin:0;max-width:none}}";

pub(super) fn write(documents: &[&Document]) -> String {
    let language = documents.first().map_or("en", |document| document.language.tag());
    let mut out = Writer::default();
    out.open("html", &[("lang", &language)]);
    out.open("head", &[]);
    out.open("meta", &[("charset", &"utf-8")]);
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    out.open("meta", &[("http-equiv", &"Content-Security-Policy"), ("content", &policy)]);
    out.open("meta", &[("name", &"viewport"), ("content", &"width=device-width")]);
    let titles: Vec<&str> = documents.iter().map(|document| document.title.as_str()).collect();
    out.element("title", &[], titles.join(" · "));
    out.open("style", &[]);
    out.add(&Markup::own_style(STYLE));
    out.close("style");
    out.close("head");
    out.open("body", &[]);
    for document in documents {
        write_document(&mut out, document);
    }
    out.close("body");
    out.close("html");
    format!("<!doctype html>{}\n", out.finish())
}

fn write_document(out: &mut Writer, document: &Document) {
    out.open("section", &[("lang", &document.language.tag())]);
    out.element("h1", &[], &document.title);
    if let Some(mark) = &document.mark {
        out.open("p", &[]);
        out.element("strong", &[("class", &"mark")], mark);
        out.close("p");
    }
    for block in &document.blocks {
        write_block(out, block);
    }
    out.element("footer", &[], &document.foot);
    out.close("section");
}

fn write_block(out: &mut Writer, block: &Block) {
    match block {
        Block::Heading(text) => out.element("h2", &[], text),
        Block::Subheading(text) => out.element("h3", &[], text),
        Block::Paragraph(text) => out.element("p", &[], text),
        Block::Warning(text) => out.element("p", &[("class", &"warning")], text),
        Block::Command(text) => {
            out.open("p", &[]);
            out.element("code", &[], text);
            out.close("p");
        }
        Block::Note(text) => out.element("p", &[("class", &"note")], text),
        Block::Facts(facts) => {
            out.open("dl", &[]);
            for (name, value) in facts {
                out.element("dt", &[], name);
                out.element("dd", &[], value);
            }
            out.close("dl");
        }
        Block::Table(table) => write_table(out, table),
        Block::Figure(figure) => out.add(&figure.svg()),
    }
}

fn write_table(out: &mut Writer, table: &Table) {
    out.open("table", &[]);
    out.open("thead", &[]);
    out.open("tr", &[]);
    for column in &table.columns {
        let class = if column.is_number { "number" } else { "" };
        out.element("th", &[("scope", &"col"), ("class", &class)], &column.head);
    }
    out.close("tr");
    out.close("thead");
    out.open("tbody", &[]);
    for row in &table.rows {
        out.open("tr", &[]);
        for (cell, column) in row.iter().zip(&table.columns) {
            let class = if column.is_number { "number" } else { "" };
            out.element("td", &[("class", &class)], cell);
        }
        out.close("tr");
    }
    out.close("tbody");
    out.close("table");
}
