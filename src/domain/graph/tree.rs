//! All modules of a configuration, as nodes and the references between them.
//!
//! A node is something that has a value: a resource, a local, an input, an output, a module call, a provider
//! configuration. [`Tree::upstream`] says what the value of a node is made from, one step at a time.

use std::collections::{BTreeMap, HashMap};

use super::configuration::{CallBlock, ModuleConfig, ResourceBlock, Step, Traversal};
use crate::domain::address::{ConfigAddress, ConfigModule, Key, Mode};

/// What has a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Item {
    /// A resource, data source or ephemeral resource.
    Resource {
        /// Which kind.
        mode: Mode,
        /// Its type.
        type_name: String,
        /// Its name.
        name: String,
    },
    /// A local value.
    Local(String),
    /// An output.
    Output(String),
    /// An input variable; its value is made in the calling module.
    Input(String),
    /// A module call: its `count`, `for_each` and `depends_on`.
    Call(String),
    /// A provider configuration, as `aws.west`.
    Provider(String),
    /// A node of Terraform's own graph that has no block of its own, as the end of a module.
    Opaque(String),
}

/// An item in its module.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    /// The module that declares it.
    pub module: ConfigModule,
    /// What it is.
    pub item: Item,
}

/// One step upstream from a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// What the value is made from.
    pub node: Node,
    /// How many steps of the module path the two share: instance keys are the same up to there, because the
    /// reference was made inside that module instance. Below it any instance may be meant, unless `call_key` says.
    pub shared: usize,
    /// The literal key of the module instance that the reference names, just below the shared part.
    pub call_key: Option<Key>,
    /// The literal key of the resource instance that the reference names.
    pub instance: Option<Key>,
}

/// A configuration: every module by its path of calls.
#[derive(Debug, Default)]
pub struct Tree {
    modules: BTreeMap<ConfigModule, ModuleConfig>,
    /// Where in its module's list each resource stands.
    blocks: HashMap<ConfigAddress, usize>,
}

impl Node {
    /// The node of a resource.
    #[must_use]
    pub fn resource(address: &ConfigAddress) -> Self {
        let item =
            Item::Resource { mode: address.mode, type_name: address.type_name.clone(), name: address.name.clone() };
        Self { module: address.module.clone(), item }
    }

    /// The node of a root output.
    #[must_use]
    pub fn root_output(name: &str) -> Self {
        Self { module: ConfigModule::root(), item: Item::Output(name.to_owned()) }
    }

    /// The resource that the node is, if it is one.
    #[must_use]
    pub fn as_resource(&self) -> Option<ConfigAddress> {
        match &self.item {
            Item::Resource { mode, type_name, name } => Some(ConfigAddress {
                module: self.module.clone(),
                mode: *mode,
                type_name: type_name.clone(),
                name: name.clone(),
            }),
            _ => None,
        }
    }
}

impl std::fmt::Display for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.module.0.is_empty() {
            write!(f, "{}.", self.module)?;
        }
        match &self.item {
            Item::Resource { mode, type_name, name } => write!(f, "{}{type_name}.{name}", mode.prefix()),
            Item::Local(name) => write!(f, "local.{name}"),
            Item::Output(name) => write!(f, "output.{name}"),
            Item::Input(name) => write!(f, "var.{name}"),
            Item::Call(name) => write!(f, "module.{name}"),
            Item::Provider(name) => write!(f, "provider.{name}"),
            Item::Opaque(text) => write!(f, "{text}"),
        }
    }
}

impl Tree {
    /// Puts modules together.
    #[must_use]
    pub fn new(modules: BTreeMap<ConfigModule, ModuleConfig>) -> Self {
        let mut blocks = HashMap::new();
        for (module, config) in &modules {
            for (position, block) in config.resources.iter().enumerate() {
                let (mode, type_name, name) = (block.mode, block.type_name.clone(), block.name.clone());
                blocks.insert(ConfigAddress { module: module.clone(), mode, type_name, name }, position);
            }
        }
        Self { modules, blocks }
    }

    /// The modules.
    #[must_use]
    pub fn modules(&self) -> &BTreeMap<ConfigModule, ModuleConfig> {
        &self.modules
    }

    /// The block of a resource.
    #[must_use]
    pub fn block(&self, address: &ConfigAddress) -> Option<&ResourceBlock> {
        self.modules.get(&address.module)?.resources.get(*self.blocks.get(address)?)
    }

    /// Whether the configuration declares the resource.
    #[must_use]
    pub fn declares(&self, address: &ConfigAddress) -> bool {
        self.blocks.contains_key(address)
    }

    fn call(&self, module: &ConfigModule, name: &str) -> Option<&CallBlock> {
        self.modules.get(module)?.calls.iter().find(|call| call.name == name)
    }

    /// What the value of a node is made from.
    #[must_use]
    pub fn upstream(&self, node: &Node) -> Vec<Upstream> {
        let mut found = Vec::new();
        let Some(config) = self.modules.get(&node.module) else {
            return found;
        };
        match &node.item {
            Item::Resource { .. } => {
                if let Some(block) = node.as_resource().and_then(|address| self.block(&address)) {
                    self.resolve_all(&node.module, &block.references, &mut found);
                    self.provider_of(&node.module, block, &mut found);
                }
                self.imports_of(node, &mut found);
                calls_above(&node.module, &mut found);
            }
            Item::Local(name) => {
                calls_above(&node.module, &mut found);
                self.resolve_all(&node.module, config.locals.get(name).map_or(&[][..], Vec::as_slice), &mut found);
            }
            Item::Output(name) => {
                calls_above(&node.module, &mut found);
                if let Some(output) = config.outputs.iter().find(|output| output.name == *name) {
                    self.resolve_all(&node.module, &output.references, &mut found);
                }
            }
            Item::Input(name) => {
                calls_above(&node.module, &mut found);
                // Validations may look at other objects of the module itself.
                if let Some(variable) = config.variables.iter().find(|variable| variable.name == *name) {
                    self.resolve_all(&node.module, &variable.references, &mut found);
                }
                // The expression stands in the calling module and is evaluated there.
                if let Some((parent, call)) = node.module.parent()
                    && let Some(block) = self.call(&parent, call)
                {
                    self.resolve_all(&parent, block.inputs.get(name).map_or(&[][..], Vec::as_slice), &mut found);
                }
            }
            Item::Call(name) => {
                if let Some(block) = self.call(&node.module, name) {
                    self.resolve_all(&node.module, &block.repetition, &mut found);
                    self.resolve_all(&node.module, &block.depends_on, &mut found);
                }
            }
            Item::Opaque(_) => {}
            Item::Provider(name) => {
                self.resolve_all(&node.module, config.providers.get(name).map_or(&[][..], Vec::as_slice), &mut found);
            }
        }
        found
    }

    fn resolve_all(&self, scope: &ConfigModule, references: &[Traversal], out: &mut Vec<Upstream>) {
        for reference in references {
            self.resolve(scope, reference, out);
        }
    }

    /// What a reference means in a module.
    pub(super) fn resolve(&self, scope: &ConfigModule, reference: &Traversal, out: &mut Vec<Upstream>) {
        let here = |item| Upstream {
            node: Node { module: scope.clone(), item },
            shared: scope.0.len(),
            call_key: None,
            instance: None,
        };
        match (reference.root.as_str(), reference.steps.as_slice()) {
            ("local", [Step::Attr(name), ..]) => out.push(here(Item::Local(name.clone()))),
            ("var", [Step::Attr(name), ..]) => out.push(here(Item::Input(name.clone()))),
            ("module", [Step::Attr(call), rest @ ..]) => self.resolve_call(scope, call, rest, out),
            ("provider", [Step::Attr(name)]) => out.push(here(Item::Provider(name.clone()))),
            ("provider", [Step::Attr(name), Step::Attr(alias)]) => {
                out.push(here(Item::Provider(format!("{name}.{alias}"))));
            }
            ("data", [Step::Attr(type_name), Step::Attr(name), rest @ ..]) => {
                let item = resource(Mode::Data, type_name, name);
                out.extend(literals(rest).into_iter().map(|instance| Upstream { instance, ..here(item.clone()) }));
            }
            ("ephemeral", [Step::Attr(type_name), Step::Attr(name), rest @ ..]) => {
                let item = resource(Mode::Ephemeral, type_name, name);
                out.extend(literals(rest).into_iter().map(|instance| Upstream { instance, ..here(item.clone()) }));
            }
            (type_name, [Step::Attr(name), rest @ ..]) => {
                let item = resource(Mode::Managed, type_name, name);
                // A name that is no resource here is bound by something that the reader does not model.
                let node = Node { module: scope.clone(), item };
                if node.as_resource().is_some_and(|address| self.declares(&address)) {
                    let narrowed = |instance| Upstream { instance, ..here(node.item.clone()) };
                    out.extend(literals(rest).into_iter().map(narrowed));
                }
            }
            _ => {}
        }
    }

    /// The nodes that a reference in a module names.
    #[must_use]
    pub fn nodes_of(&self, scope: &ConfigModule, reference: &Traversal) -> Vec<Node> {
        let mut found = Vec::new();
        self.resolve(scope, reference, &mut found);
        found.into_iter().map(|upstream| upstream.node).collect()
    }

    fn resolve_call(&self, scope: &ConfigModule, call: &str, rest: &[Step], out: &mut Vec<Upstream>) {
        let child = scope.child(call);
        let shared = scope.0.len();
        // Without `count` and `for_each`, `module.x["out"]` is the output of that name, and not an instance.
        let repeated = self.call(scope, call).is_none_or(|block| block.repeated);
        let (call_keys, rest) = match rest {
            [Step::Index(_) | Step::Any, after @ ..] if repeated => (literals(rest), after),
            all => (vec![None], all),
        };
        let output = match rest {
            [Step::Attr(name) | Step::Index(Key::Str(name)), ..] => Some(name),
            _ => None,
        };
        let mut push = |module: &ConfigModule, item| {
            let node = Node { module: module.clone(), item };
            out.extend(call_keys.iter().map(|call_key| Upstream {
                node: node.clone(),
                shared,
                call_key: call_key.clone(),
                instance: None,
            }));
        };
        push(scope, Item::Call(call.to_owned()));
        // An output that the reader does not know is no reason to know nothing: then the whole module is meant.
        let declared = |name: &&String| {
            self.modules.get(&child).is_some_and(|config| config.outputs.iter().any(|output| output.name == **name))
        };
        if let Some(output) = output.filter(declared) {
            push(&child, Item::Output(output.clone()));
            return;
        }
        // The module as a whole: Terraform waits for everything in it.
        for (module, config) in self.modules.range(child.clone()..).take_while(|(module, _)| child.contains(module)) {
            if *module == child {
                for output in &config.outputs {
                    push(module, Item::Output(output.name.clone()));
                }
            }
            for block in &config.resources {
                push(module, resource(block.mode, &block.type_name, &block.name));
            }
        }
    }

    /// The provider configuration that a resource uses: its own module's, or one handed down by the callers.
    fn provider_of(&self, module: &ConfigModule, block: &ResourceBlock, out: &mut Vec<Upstream>) {
        let default = || block.type_name.split('_').next().unwrap_or_default().to_owned();
        let mut name = block.provider.clone().unwrap_or_else(default);
        let mut at = module.clone();
        loop {
            let declared = self.modules.get(&at).is_some_and(|config| config.providers.contains_key(&name));
            if declared {
                let shared = at.0.len();
                let node = Node { module: at.clone(), item: Item::Provider(name.clone()) };
                out.push(Upstream { node, shared, call_key: None, instance: None });
            }
            let Some((parent, call)) = at.parent() else {
                return;
            };
            // An empty block in a child module is a mere placeholder for what its caller hands down.
            let handed = self.call(&parent, call).is_some_and(|call| call.providers.contains_key(&name));
            if declared && !handed {
                return;
            }
            if let Some(outside) = self.call(&parent, call).and_then(|call| call.providers.get(&name)) {
                name.clone_from(outside);
            }
            at = parent;
        }
    }

    /// What the id of an imported object is made from: `import` blocks stand in the root module only.
    fn imports_of(&self, node: &Node, out: &mut Vec<Upstream>) {
        let root = ConfigModule::root();
        let Some(config) = self.modules.get(&root) else {
            return;
        };
        for import in &config.imports {
            if target(&import.to) == node.as_resource() {
                self.resolve_all(&root, &import.references, out);
            }
        }
    }
}

/// `count`, `for_each` and `depends_on` of every call on the way to a module.
fn calls_above(module: &ConfigModule, out: &mut Vec<Upstream>) {
    let mut at = module.clone();
    while let Some((parent, call)) = at.parent() {
        let node = Node { module: parent.clone(), item: Item::Call(call.to_owned()) };
        out.push(Upstream { node, shared: parent.0.len(), call_key: None, instance: None });
        at = parent;
    }
}

fn resource(mode: Mode, type_name: &str, name: &str) -> Item {
    Item::Resource { mode, type_name: type_name.to_owned(), name: name.to_owned() }
}

/// The instances that a literal index at the front may mean; one `None`, for any, without such an index. Terraform
/// converts between the two kinds of key: `x["0"]` finds `x[0]`, and the reverse.
fn literals(steps: &[Step]) -> Vec<Option<Key>> {
    match steps.first() {
        Some(Step::Index(Key::Int(index))) => vec![Some(Key::Int(*index)), Some(Key::Str(index.to_string()))],
        Some(Step::Index(Key::Str(text))) => match text.parse::<u64>() {
            Ok(index) if index.to_string() == *text => vec![Some(Key::Str(text.clone())), Some(Key::Int(index))],
            _ => vec![Some(Key::Str(text.clone()))],
        },
        _ => vec![None],
    }
}

/// The resource that a `to` or `from` names, without instance keys; none for a whole module.
#[must_use]
pub fn target(reference: &Traversal) -> Option<ConfigAddress> {
    let mut names: Vec<&str> = vec![&reference.root];
    names.extend(reference.steps.iter().filter_map(|step| match step {
        Step::Attr(name) => Some(name.as_str()),
        _ => None,
    }));
    let mut module = ConfigModule::root();
    let mut rest = names.as_slice();
    while let ["module", call, more @ ..] = rest {
        module = module.child(call);
        rest = more;
    }
    let (mode, rest) = match rest {
        ["data", more @ ..] => (Mode::Data, more),
        ["ephemeral", more @ ..] => (Mode::Ephemeral, more),
        all => (Mode::Managed, all),
    };
    match rest {
        [type_name, name, ..] => {
            Some(ConfigAddress { module, mode, type_name: (*type_name).to_owned(), name: (*name).to_owned() })
        }
        _ => None,
    }
}
