//! The free references of an expression: what it refers to, without the names that it binds itself.

use hcl_edit::expr::{Expression, ForExpr, FuncName, ObjectKey, Traversal as Path, TraversalOperator};
use hcl_edit::template::{Element, ForDirective};
use hcl_edit::visit::{self, Visit};

use super::{Step, Traversal};
use crate::domain::address::Key;

/// Roots that no other block stands behind. `tofu` is OpenTofu's word for `terraform`.
const WITHOUT_EDGE: [&str; 6] = ["each", "count", "self", "path", "terraform", "tofu"];

/// Collects free references.
#[derive(Default)]
pub(super) struct Collector {
    bound: Vec<String>,
    pub(super) found: Vec<Traversal>,
}

impl Collector {
    fn within<'a>(&mut self, names: impl Iterator<Item = &'a str>, visit: impl FnOnce(&mut Self)) {
        let outer = self.bound.len();
        self.bound.extend(names.map(str::to_owned));
        visit(self);
        self.bound.truncate(outer);
    }

    /// The steps of a path; what stands in a computed index is itself collected.
    fn steps(&mut self, path: &Path) -> Vec<Step> {
        path.operators
            .iter()
            .map(|operator| match operator.value() {
                TraversalOperator::GetAttr(name) => Step::Attr(name.as_str().to_owned()),
                TraversalOperator::LegacyIndex(index) => Step::Index(Key::Int(*index.value())),
                TraversalOperator::AttrSplat(_) | TraversalOperator::FullSplat(_) => Step::Any,
                TraversalOperator::Index(index) => literal_key(index).map_or_else(
                    || {
                        self.visit_expr(index);
                        Step::Any
                    },
                    Step::Index,
                ),
            })
            .collect()
    }

    /// The path that an expression consists of, when it is nothing but a name and steps.
    pub(super) fn path(&mut self, expression: &Expression) -> Option<Traversal> {
        match expression {
            Expression::Variable(root) => Some(Traversal { root: root.as_str().to_owned(), steps: Vec::new() }),
            Expression::Traversal(path) => {
                let Expression::Variable(root) = &path.expr else { return None };
                let steps = self.steps(path);
                Some(without_prefix(root.as_str(), steps))
            }
            Expression::Parenthesis(inner) => self.path(inner.inner()),
            _ => None,
        }
    }
}

impl Visit for Collector {
    fn visit_traversal(&mut self, path: &Path) {
        let steps = self.steps(path);
        match &path.expr {
            Expression::Variable(root) => {
                let root = root.as_str();
                if !WITHOUT_EDGE.contains(&root) && !self.bound.iter().any(|name| name == root) {
                    self.found.push(without_prefix(root, steps));
                }
            }
            other => self.visit_expr(other),
        }
    }

    fn visit_for_expr(&mut self, node: &ForExpr) {
        self.visit_expr(&node.intro.collection_expr);
        let names = node.intro.key_var.iter().chain([&node.intro.value_var]).map(|name| name.as_str());
        self.within(names, |inner| {
            if let Some(key) = &node.key_expr {
                inner.visit_expr(key);
            }
            inner.visit_expr(&node.value_expr);
            if let Some(condition) = &node.cond {
                inner.visit_expr(&condition.expr);
            }
        });
    }

    fn visit_for_directive(&mut self, node: &ForDirective) {
        let head = &node.for_expr;
        self.visit_expr(&head.collection_expr);
        let names = head.key_var.iter().chain([&head.value_var]).map(|name| name.as_str());
        self.within(names, |inner| inner.visit_template(&head.template));
    }

    fn visit_object_key(&mut self, key: &ObjectKey) {
        // A bare word is a literal key; `(word)` and paths are expressions.
        if let ObjectKey::Expression(expression) = key {
            self.visit_expr(expression);
        }
    }

    fn visit_func_name(&mut self, name: &FuncName) {
        // `provider::aws::f`; OpenTofu has `provider::aws::west::f`, too, which the provider's configuration feeds.
        if let [head, provider @ ..] = name.namespace.as_slice()
            && head.as_str() == "provider"
            && !provider.is_empty()
        {
            let steps = provider.iter().map(|part| Step::Attr(part.as_str().to_owned())).collect();
            self.found.push(Traversal { root: "provider".to_owned(), steps });
        }
        visit::visit_func_name(self, name);
    }
}

/// `resource.aws_vpc.a` is the long form of `aws_vpc.a`.
fn without_prefix(root: &str, mut steps: Vec<Step>) -> Traversal {
    if root == "resource"
        && steps.len() > 1
        && let Step::Attr(type_name) = &steps[0]
    {
        let root = type_name.clone();
        steps.remove(0);
        return Traversal { root, steps };
    }
    Traversal { root: root.to_owned(), steps }
}

/// The key that an index spells out.
///
/// Terraform converts keys: `["01"]`, `["1.0"]` and `[1.0]` all find the instance 1 of a `count`. A text that is
/// a number in a spelling of its own is therefore not taken for a literal.
fn literal_key(index: &Expression) -> Option<Key> {
    let text = match index {
        Expression::Number(number) => return number.value().as_u64().map(Key::Int),
        Expression::String(text) => text.value().clone(),
        Expression::StringTemplate(template) => {
            let mut text = String::new();
            for element in template {
                let Element::Literal(literal) = element else { return None };
                text.push_str(literal.value());
            }
            text
        }
        _ => return None,
    };
    let own_spelling = text.trim().parse::<f64>().is_ok() && !is_plain_integer(&text);
    (!own_spelling).then_some(Key::Str(text))
}

fn is_plain_integer(text: &str) -> bool {
    text.parse::<u64>().is_ok_and(|number| number.to_string() == text)
}
