//! URLs about claims.

use super::{Address, Route, pattern, with_query};

impl Address {
    /// The list of claims as CSV.
    #[must_use]
    pub fn claims_csv(&self) -> String {
        with_query(pattern::CLAIMS_CSV.to_owned(), &self.state.pairs())
    }

    /// Where a step of the claim that the page shows is sent.
    #[must_use]
    pub fn claim_step(&self) -> String {
        self.of_claim(pattern::CLAIM_STEP)
    }

    /// The text of that claim as a file.
    #[must_use]
    pub fn claim_text(&self) -> String {
        self.of_claim(pattern::CLAIM_TEXT)
    }

    fn of_claim(&self, pattern: &str) -> String {
        match self.route {
            Route::Claim(number) => with_query(of_claim(pattern, number), &self.state.pairs()),
            _ => pattern::CLAIMS.to_owned(),
        }
    }
}

/// The path of something about a claim.
pub(super) fn of_claim(pattern: &str, number: i32) -> String {
    pattern.replace("{claim}", &number.to_string())
}
