//! The forecast in words: what two open requests mean for each other.

use crate::domain::coordination::forecast::ForecastRelation;

/// What the two amount to, in a few words.
#[must_use]
pub fn title(relation: ForecastRelation) -> &'static str {
    match relation {
        ForecastRelation::Independent => "independent",
        ForecastRelation::TheyReadOurs => "it reads what this one writes",
        ForecastRelation::WeReadTheirs => "this one reads what it writes",
        ForecastRelation::BothWrite => "both write the same rows",
    }
}

/// What follows from it.
#[must_use]
pub fn advice(relation: ForecastRelation) -> &'static str {
    match relation {
        ForecastRelation::Independent => "both can be applied at the same time",
        ForecastRelation::TheyReadOurs => "once this one is applied, the other has to plan again",
        ForecastRelation::WeReadTheirs => "once the other is applied, this one has to plan again",
        ForecastRelation::BothWrite => "whichever is applied second has to plan again",
    }
}

/// A sign that says the same: the calm one is small, the others are not.
#[must_use]
pub fn sign(relation: ForecastRelation) -> &'static str {
    match relation {
        ForecastRelation::Independent => "✓",
        ForecastRelation::TheyReadOurs => "◁",
        ForecastRelation::WeReadTheirs => "▷",
        ForecastRelation::BothWrite => "✗",
    }
}
