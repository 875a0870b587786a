//! Why a document cannot be taken as a state. The texts name places and addresses, never another value: a state is
//! full of secrets, and an error ends in a log.

use crate::domain::address::ParseAddressError;
use crate::domain::id::Serial;

/// Why a document cannot be taken as a state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// The text ends in the middle of a value.
    #[error(
        "the state document is cut off: it ends at line {line}, column {column} in the middle of a value; fetch it \
         again, for instance with `terraform state pull`"
    )]
    Truncated {
        /// The last line.
        line: usize,
        /// The column in it.
        column: usize,
    },
    /// The text is not JSON.
    #[error(
        "the state document is not JSON (line {line}, column {column}); kl reads what `terraform state pull` prints"
    )]
    NotJson {
        /// The line of the first letter that does not belong there.
        line: usize,
        /// Its column.
        column: usize,
    },
    /// The text is JSON, but no object.
    #[error("the state document is JSON, but not an object; kl reads what `terraform state pull` prints")]
    NotAnObject,
    /// There is no `version` member.
    #[error(
        "the document has no \"version\" member, so it is not a Terraform state; an empty file stands for an empty \
         state, and kl reads what `terraform state pull` prints"
    )]
    NoVersion,
    /// The format is one of those before Terraform 0.12.
    #[error(
        "the state document has an old format (\"version\" is below 4); upgrade it with a current Terraform first: \
         `terraform state pull` prints it in the current format, and `terraform apply -refresh-only` or `terraform \
         state push` rewrite it where it lies"
    )]
    OldVersion,
    /// The format is newer than this kl.
    #[error(
        "the state document has a format that this kl does not know (\"version\" is above 4); use a newer kl, or the \
         Terraform version that the state was written with before"
    )]
    NewVersion,
    /// OpenTofu has encrypted it.
    #[error(
        "the state document is encrypted (it has \"encrypted_data\"), and kl cannot look into it; give kl the plain \
         document, as `tofu state pull` prints it"
    )]
    Encrypted,
    /// The serial is below zero.
    #[error("\"serial\" of the state document is negative; Terraform counts from 0, so the document was damaged")]
    NegativeSerial,
    /// The serial leaves no room for those that are to follow.
    #[error(
        "\"serial\" of the state document is above {}, which leaves too little room for the versions that follow; set it \
         to a smaller one",
        Serial::HIGHEST
    )]
    HugeSerial,
    /// A member has another type than Terraform gives it.
    #[error("{place} of the state document is not {expected}; Terraform could not read it either, restore a backup")]
    WrongShape {
        /// Which member.
        place: String,
        /// What stands there in a state of Terraform's.
        expected: &'static str,
    },
    /// A member that Terraform always writes is missing.
    #[error("{place} of the state document has no \"{member}\"; Terraform always writes one, restore a backup")]
    MissingMember {
        /// Which object.
        place: String,
        /// What it lacks.
        member: &'static str,
    },
    /// The `mode` of a resource is neither `managed` nor `data`.
    #[error(
        "\"mode\" of {place} of the state document is neither \"managed\" nor \"data\"; use a newer kl if Terraform wrote it"
    )]
    UnknownMode {
        /// Which resource.
        place: String,
    },
    /// The `module` of a resource is no module path.
    #[error("\"module\" of {place} of the state document is not a module's address")]
    BadModule {
        /// Which resource.
        place: String,
        /// Where the text goes wrong.
        #[source]
        source: ParseAddressError,
    },
    /// Module, type and name of a resource do not make an address.
    #[error("\"type\" and \"name\" of {place} of the state document do not make an address: {address:?}")]
    BadAddress {
        /// Which resource.
        place: String,
        /// What they would make.
        address: String,
    },
    /// The name of an output is not one that a configuration can declare.
    #[error("member {position} of \"outputs\" of the state document is not named as an output can be")]
    BadOutputName {
        /// Which one, counted from 0.
        position: usize,
        /// Where the text goes wrong.
        #[source]
        source: ParseAddressError,
    },
    /// The `index_key` of an instance is neither a count index nor a string.
    #[error("instance {position} of {resource}: \"index_key\" is neither a whole number from 0 on nor a string")]
    BadIndexKey {
        /// The resource.
        resource: String,
        /// Which instance, counted from 0.
        position: usize,
    },
    /// The key of a deposed object is not of Terraform's form.
    #[error("{instance}: \"deposed\" is not a key of eight letters, as Terraform gives them")]
    BadDeposedKey {
        /// The instance.
        instance: String,
    },
    /// Two entries describe the same row.
    #[error(
        "{row} stands in the state document twice, which Terraform does not accept either; find out which of the two \
         is real, and take the other out of the document"
    )]
    Duplicate {
        /// Which row.
        row: String,
    },
    /// Two members at the top level have one name.
    #[error(
        "{name:?} stands twice at the top level of the state document, and Terraform would take the last one alone; find \
         out which of the two is right, and take the other out of the document"
    )]
    MemberTwice {
        /// Their name.
        name: String,
    },
    /// A string is not Unicode: half of a surrogate pair.
    #[error("{row} has a string with half a surrogate pair (\"\\ud800\" or the like), which is not Unicode")]
    NotUnicode {
        /// Which row.
        row: String,
    },
    /// A text that is kept by itself has a control character.
    #[error(
        "{place} of the state document has a control character (\"\\u0000\" or the like), which kl does not keep there and \
         Terraform never writes; restore a backup"
    )]
    ControlCharacter {
        /// Which member.
        place: String,
    },
    /// A value nests deeper than kl follows.
    #[error("{row} nests deeper than any resource of a real provider")]
    TooDeep {
        /// Which row.
        row: String,
    },
}
