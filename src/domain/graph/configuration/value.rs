//! Values of attributes in both syntaxes, asked for what they refer to or literally say.

use hcl_edit::expr::{Expression, ObjectKey};
use hcl_edit::visit::Visit;

use super::json::Json;
use super::references::Collector;
use super::{ConfigurationError, Step, Traversal};

/// The value of an attribute.
pub(super) enum Value {
    /// As an expression of the native syntax.
    Native(Expression),
    /// As JSON, with the file that it stands in.
    Json(Json, String),
}

/// An error whose place in the file is still to be found.
#[derive(Debug)]
pub(super) struct Trouble {
    /// The file.
    pub(super) file: String,
    /// The line of the block, or 0.
    pub(super) line: usize,
    /// The string that is wrong, when it is one of a JSON file.
    pub(super) snippet: Option<String>,
    /// What is wrong with it.
    pub(super) message: String,
}

impl Trouble {
    /// Finds the place by looking for the string, for the JSON parser keeps no positions.
    pub(super) fn located(self, files: &[(String, String)]) -> ConfigurationError {
        let text = files.iter().find(|(name, _)| *name == self.file).map_or("", |(_, text)| text);
        let needle = self.snippet.as_ref().and_then(|snippet| serde_json::to_string(snippet).ok());
        let found = needle.and_then(|needle| text.find(&needle));
        let (line, column) = found.map_or((self.line.max(1), 1), |at| {
            let before = &text[..at];
            let line_start = before.rfind('\n').map_or(0, |end| end + 1);
            (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
        });
        ConfigurationError { file: self.file, line, column, message: self.message }
    }
}

impl Value {
    /// Everything that the value refers to.
    pub(super) fn references(&self, out: &mut Vec<Traversal>) -> Result<(), Trouble> {
        match self {
            Self::Native(expression) => {
                let mut collector = Collector::default();
                collector.visit_expr(expression);
                out.append(&mut collector.found);
                Ok(())
            }
            Self::Json(json, file) => json.references(out).map_err(|trouble| trouble.in_file(file)),
        }
    }

    /// Everything that the value refers to, where plain strings are references, too, as in `depends_on`.
    pub(super) fn named(&self, out: &mut Vec<Traversal>) -> Result<(), Trouble> {
        match self {
            Self::Native(expression) => {
                self.references(out)?;
                // The quoted references of Terraform 0.11 are still understood.
                let items = expression.as_array().into_iter().flat_map(|items| items.iter());
                for text in items.chain([expression]).filter_map(Expression::as_str) {
                    if let Ok(quoted) = hcl_edit::parser::parse_expr(text) {
                        Self::Native(quoted).references(out)?;
                    }
                }
                Ok(())
            }
            Self::Json(json, file) => json.named(out).map_err(|trouble| trouble.in_file(file)),
        }
    }

    /// The one path that the value is, as in `to` and `from`; what its computed keys refer to goes to `out`.
    pub(super) fn path(&self, out: &mut Vec<Traversal>) -> Option<Traversal> {
        let quoted;
        let expression = match self {
            Self::Native(expression) => match expression.as_str() {
                None => expression,
                Some(text) => {
                    quoted = hcl_edit::parser::parse_expr(text).ok()?;
                    &quoted
                }
            },
            Self::Json(json, _) => {
                quoted = json.expression()?;
                &quoted
            }
        };
        let mut collector = Collector::default();
        let path = collector.path(expression);
        out.append(&mut collector.found);
        path
    }

    /// The name of a provider configuration: `aws`, or `aws.west`.
    pub(super) fn provider(&self, out: &mut Vec<Traversal>) -> Option<String> {
        self.path(out).map(|path| provider_name(&path))
    }

    /// The entries of a `providers` map: name inside → name outside.
    pub(super) fn providers(&self, out: &mut Vec<Traversal>) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        match self {
            Self::Native(Expression::Object(object)) => {
                for (key, value) in object {
                    let inside = match key {
                        ObjectKey::Ident(name) => Some(name.as_str().to_owned()),
                        ObjectKey::Expression(key) => Self::Native(key.clone()).provider(out),
                    };
                    let outside = Self::Native(value.expr().clone()).provider(out);
                    pairs.extend(inside.zip(outside));
                }
            }
            Self::Json(Json::Object(members), file) => {
                for (inside, value) in members {
                    let outside = Self::Json(value.clone(), file.clone()).provider(out);
                    pairs.extend(outside.map(|outside| (inside.clone(), outside)));
                }
            }
            _ => {}
        }
        pairs
    }

    /// The text of a literal string.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Native(expression) => expression.as_str(),
            Self::Json(Json::String(text), _) if !Json::is_template(text) => Some(text),
            Self::Json(..) => None,
        }
    }

    /// A literal string or a bare word, as in `iterator = x`.
    pub(super) fn word(&self) -> Option<String> {
        match self {
            Self::Native(Expression::Variable(name)) => Some(name.as_str().to_owned()),
            _ => self.text().map(str::to_owned),
        }
    }

    /// Whether the value is literally true; Terraform takes `"true"`, too.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Native(Expression::Bool(value)) => *value.value(),
            Self::Json(Json::Bool(value), _) => *value,
            _ => self.text() == Some("true"),
        }
    }
}

fn provider_name(path: &Traversal) -> String {
    match path.steps.first() {
        Some(Step::Attr(alias)) => format!("{}.{alias}", path.root),
        _ => path.root.clone(),
    }
}
