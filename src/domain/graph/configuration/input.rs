//! Values that are given for input variables from outside: how Terraform reads `-var NAME=VALUE`, as files that say the
//! same.

use hcl_edit::expr::Expression;

use super::block::Block;

/// How Terraform reads the text that is given for a variable on its command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// The text itself, whatever is in it: for `string`, `number`, `bool`, and variables without a type.
    Literal,
    /// An expression of the native syntax: for every other type, `any` among them.
    Expression,
}

/// A value that cannot be given for a variable whose type wants an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it has to be an expression, as the variable's type is neither string, number nor bool")]
pub struct NotAnExpression;

impl Form {
    /// The form for a `variable` block.
    pub(super) fn of(block: &Block) -> Self {
        let Some(kind) = block.body.attribute("type") else { return Self::Literal };
        match kind.word().as_deref() {
            Some("string" | "number" | "bool") => Self::Literal,
            _ => Self::Expression,
        }
    }

    /// How the name of a variable file has to end whose text is in this form.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            // Strings of a JSON file are no templates, so that nothing in them has to be escaped but for JSON.
            Self::Literal => "tfvars.json",
            Self::Expression => "tfvars",
        }
    }

    /// The text of a variable file that gives the variable this value, and nothing else a value.
    ///
    /// # Errors
    /// When the value is not exactly one expression, and its variable wants one.
    pub fn file(self, name: &str, value: &str) -> Result<String, NotAnExpression> {
        match self {
            Self::Literal => {
                let name = serde_json::Value::from(name);
                let value = serde_json::Value::from(value);
                Ok(format!("{{{name}:{value}}}\n"))
            }
            Self::Expression => {
                // In parentheses an expression may go over several lines, as it may on the command line. What is more
                // than one expression would close them, and could then say anything. The comment keeps a heredoc from
                // ending at the end of the text, where it has no line end: Terraform wants one.
                let enclosed = format!("(\n{value}#\n)");
                match hcl_edit::parser::parse_expr(&enclosed) {
                    Ok(Expression::Parenthesis(_)) if heredocs_are_plain(&enclosed) => {
                        Ok(format!("{name} = {enclosed}\n"))
                    }
                    _ => Err(NotAnExpression),
                }
            }
        }
    }
}

/// So many heredocs a value may have.
const MAX_HEREDOCS: usize = 100;

/// Whether every heredoc ends where Terraform ends it: at a line with nothing but its word. The parser takes a line that
/// only begins with the word for the end, too, and would then see something else in the rest than Terraform does.
fn heredocs_are_plain(text: &str) -> bool {
    let words: Vec<&str> = text
        .split("<<")
        .skip(1)
        .map(|rest| rest.strip_prefix('-').unwrap_or(rest))
        .map(|rest| &rest[..rest.find(char::is_whitespace).unwrap_or(rest.len())])
        .filter(|word| !word.is_empty())
        .collect();
    let ends_elsewhere = |line: &str| words.iter().any(|word| line.starts_with(word) && line != *word);
    words.is_empty() || words.len() <= MAX_HEREDOCS && !text.lines().map(str::trim).any(ends_elsewhere)
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    fn form(declaration: &str) -> Form {
        let config = read(&[("main.tf".to_owned(), declaration.to_owned())]).unwrap();
        config.variables[0].form
    }

    #[test]
    fn the_type_decides_on_the_form() {
        assert_eq!(form("variable \"x\" {}"), Form::Literal);
        for kind in ["string", "number", "bool"] {
            assert_eq!(form(&format!("variable \"x\" {{\n  type = {kind}\n}}\n")), Form::Literal);
        }
        for kind in ["any", "list(string)", "object({ a = string })", "tuple([])", "map(any)", "list", "map"] {
            assert_eq!(form(&format!("variable \"x\" {{\n  type = {kind}\n}}\n")), Form::Expression);
        }
    }

    #[test]
    fn json_configuration_names_types_in_strings() {
        let text = r#"{"variable": {"x": {"type": "string"}, "y": {"type": "set(string)"}}}"#;
        let config = read(&[("main.tf.json".to_owned(), text.to_owned())]).unwrap();
        let forms: Vec<Form> = config.variables.iter().map(|variable| variable.form).collect();
        assert_eq!(forms, [Form::Literal, Form::Expression]);
    }

    #[test]
    fn an_override_changes_the_form_with_the_type() {
        let files = [
            ("main.tf", "variable \"x\" {\n  type = string\n}\n"),
            ("override.tf", "variable \"x\" {\n  type = any\n}\n"),
        ];
        let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(read(&files).unwrap().variables[0].form, Form::Expression);
    }

    #[test]
    fn a_literal_is_a_string_whatever_it_holds() {
        let file = Form::Literal.file("x", "a\"${b}\n%{c}\\").unwrap();
        assert_eq!(file, "{\"x\":\"a\\\"${b}\\n%{c}\\\\\"}\n");
    }

    #[test]
    fn a_heredoc_does_not_hide_a_second_value() {
        let sly = "<<EOT\nEOT + <<A\nEOT\n)\ny = (<<A\nx\nA\n";
        assert_eq!(Form::Expression.file("x", sly), Err(NotAnExpression));
        assert!(Form::Expression.file("x", "[<<-A\n  x\n  A\n, <<B\ny\nB\n]").is_ok());
    }

    #[test]
    fn an_expression_stands_alone() {
        for good in
            ["[]", "{\n  a = 1\n}", "1 +\n2", "<<EOT\n) y = (\nEOT\n", "\"${1}\"", "[1] # )", "(1)", " /* ( */ null "]
        {
            assert_eq!(Form::Expression.file("x", good), Ok(format!("x = (\n{good}#\n)\n")), "{good}");
        }
        for bad in
            ["", "1)\ny = (2", "1) + (2", "1, 2", "[", "1 /*", "# 1", ")", "<<EOT\nx", "<<EOT\nx\nEOT", "\"", "a = 1"]
        {
            assert_eq!(Form::Expression.file("x", bad), Err(NotAnExpression), "{bad}");
        }
    }
}
