//! Native syntax to blocks.

use std::borrow::Cow;

use hcl_edit::Span;
use hcl_edit::structure::{BlockLabel, Structure};

use super::block::{Block, Body};
use super::value::Value;
use super::{ConfigurationError, Place};

/// Reads the blocks of one file.
pub(super) fn read(file: &str, text: &str) -> Result<Vec<Block>, ConfigurationError> {
    // A carriage return means nothing in any place that is looked at here, and lines and columns stay the same.
    let mut text = if text.contains('\r') { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) };
    let body = parse(&mut text).map_err(|error| ConfigurationError {
        file: file.to_owned(),
        line: error.location().line(),
        column: error.location().column(),
        message: error.message().to_owned(),
    })?;
    let source = Source { file, line_ends: text.match_indices('\n').map(|(at, _)| at).collect() };
    Ok(source.body(body).blocks)
}

/// Parses a file, and lets pass what Terraform lets pass: a key that comes twice in an object.
///
/// The parser refuses those. No key is ever evaluated here, so a number before the second one (`7-key`) makes it
/// another key without making it another reference.
fn parse(text: &mut Cow<'_, str>) -> Result<hcl_edit::structure::Body, hcl_edit::parser::Error> {
    let mut attempts = 0;
    loop {
        match hcl_edit::parser::parse_body(text) {
            Err(error)
                if attempts < MAX_REPEATED_KEYS
                    && attempts * text.len() < MAX_PARSED_AGAIN
                    && error.message().contains("redefined object key") =>
            {
                text.to_mut().insert_str(error.location().offset(), &format!("{attempts}-"));
                attempts += 1;
            }
            parsed => return parsed,
        }
    }
}

/// How many repeated keys one file may have, for each costs another parse.
const MAX_REPEATED_KEYS: usize = 200;

/// And so many bytes may be parsed once more in all: some seconds.
const MAX_PARSED_AGAIN: usize = 64 << 20;

/// The file that blocks are taken from.
struct Source<'a> {
    file: &'a str,
    line_ends: Vec<usize>,
}

impl Source<'_> {
    fn body(&self, body: hcl_edit::structure::Body) -> Body {
        let mut out = Body::default();
        for structure in body {
            match structure {
                Structure::Attribute(attribute) => {
                    out.attributes.push((attribute.key.as_str().to_owned(), Value::Native(attribute.value)));
                }
                Structure::Block(block) => out.blocks.push(self.block(block)),
            }
        }
        out
    }

    fn block(&self, block: hcl_edit::structure::Block) -> Block {
        let offset = block.ident.span().map_or(0, |span| span.start);
        let line = self.line_ends.partition_point(|end| *end < offset) + 1;
        Block {
            kind: block.ident.as_str().to_owned(),
            labels: block.labels.iter().map(label).collect(),
            place: Place { file: self.file.to_owned(), line },
            body: self.body(block.body),
        }
    }
}

fn label(label: &BlockLabel) -> String {
    match label {
        BlockLabel::Ident(name) => name.as_str().to_owned(),
        BlockLabel::String(name) => name.value().clone(),
    }
}
