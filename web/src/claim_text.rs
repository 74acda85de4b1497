//! The text of a claim, in either language, from what was proven.
//!
//! It says what the terms want to see: who, which instance by the provider's own names, when in
//! local time and in UTC, by which evidence, how the amount comes about, and by which clauses. It
//! never says more than is proven. Not here: sending it.

use leasewatch_core::id::{Hash, clean_text};
use leasewatch_core::metering::Ppm;
use leasewatch_core::sla::claim_facts::{ClaimFacts, OutageDetail, UsedAmount};
use leasewatch_core::time::{Period, Timestamp, Zone};

use crate::deadline::instants;
use crate::format::{self, Detail, Quantity};
use crate::i18n::{Language, Text, phrase};

/// A claim as its text needs it.
#[derive(Debug, Clone, Copy)]
pub struct Letter<'a> {
    /// The rental's name.
    pub lease: &'a str,
    /// The objective that was missed.
    pub objective: &'a str,
    /// `ID@VERSION` of the profile.
    pub profile: &'a str,
    /// The hash of its text.
    pub profile_hash: Hash,
    /// The window that was judged.
    pub window: Period,
    /// What is asked for, with its currency.
    pub asked: &'a str,
    /// The last instant at which it is in time.
    pub deadline: Option<Timestamp>,
    /// When the provider was told.
    pub notified_at: Option<Timestamp>,
    /// What was known when it was drafted.
    pub facts: &'a ClaimFacts,
}

/// Lines of a text in the making.
struct Lines<'a> {
    out: Vec<String>,
    letter: &'a Letter<'a>,
    zone: Zone,
    language: Language,
}

/// The text, without markup.
#[must_use]
pub fn text(letter: &Letter<'_>, language: Language) -> String {
    let zone = Zone::parse(&letter.facts.zone).unwrap_or(Zone::UTC);
    let mut lines = Lines { out: Vec::new(), letter, zone, language };
    lines.head();
    lines.figures();
    lines.outages();
    lines.amount();
    lines.terms();
    let mut text = lines.out.join("\n");
    text.push('\n');
    text
}

/// The affected part of the rental, in words.
pub(crate) fn unit(node: Option<&str>, gpu: Option<u16>, language: Language) -> String {
    match (node, gpu) {
        (Some(node), Some(gpu)) => {
            format!("{} · {}", clean(node), phrase::gpu_label(language, gpu))
        }
        (Some(node), None) => clean(node),
        (None, _) => Text::JudgedWhole.words(language).to_owned(),
    }
}

impl Lines<'_> {
    fn say(&mut self, text: impl Into<String>) {
        self.out.push(text.into());
    }

    fn head(&mut self) {
        let (letter, language) = (self.letter, self.language);
        let facts = letter.facts;
        self.say(Text::ClaimLetterTitle.words(language));
        match facts.origin.as_str() {
            "simulated" => self.say(Text::ClaimLetterDemo.words(language)),
            "imported" => self.say(Text::ClaimLetterImported.words(language)),
            _ => {}
        }
        self.say("");
        self.say(phrase::claim_letter_to(language, clean(&facts.provider)));
        let product = clean(&facts.product);
        self.say(phrase::claim_letter_rental(language, letter.lease, product));
        let id = |id: &Option<String>| id.as_deref().map(clean);
        let named = [
            id(&facts.order).map(|id| phrase::claim_letter_order(language, id)),
            id(&facts.instance).map(|id| phrase::claim_letter_instance(language, id)),
            id(&facts.machine).map(|id| phrase::claim_letter_machine(language, id)),
            id(&facts.region).map(|id| phrase::claim_letter_region(language, id)),
        ];
        self.out.extend(named.into_iter().flatten());
        let model = clean(&facts.gpu_model);
        self.say(phrase::claim_letter_gpus(language, facts.gpu_count, model));
        let unit = unit(facts.node.as_deref(), facts.gpu, language);
        self.say(phrase::claim_letter_unit(language, unit));
    }

    fn figures(&mut self) {
        let (letter, language) = (self.letter, self.language);
        let facts = letter.facts;
        self.say("");
        self.say(match facts.target_ppm {
            Some(ppm) => {
                phrase::claim_letter_promise(language, letter.objective, share(ppm, language))
            }
            None => phrase::claim_letter_single(language, letter.objective),
        });
        let (from, to) = (self.both(letter.window.start), self.both(letter.window.end));
        self.say(phrase::claim_letter_window(language, from, to));
        if !facts.is_over {
            self.say(Text::ClaimLetterRunning.words(language));
        }
        let proven = duration(facts.proven_ms, language);
        let high = i128::from(facts.whole_ms - facts.proven_ms);
        let high = Ppm::of(high, i128::from(facts.whole_ms)).filter(|_| facts.target_ppm.is_some());
        self.say(match high {
            Some(high) => {
                let whole = duration(facts.whole_ms, language);
                phrase::claim_letter_reached(language, share(high.0, language), proven, whole)
            }
            None => phrase::claim_letter_proven(language, proven),
        });
        if facts.unknown_ms > 0 {
            let time = duration(facts.unknown_ms, language);
            self.say(phrase::claim_letter_unknown(language, time));
        }
    }

    fn outages(&mut self) {
        let language = self.language;
        self.say("");
        self.say(Text::ClaimLetterOutages.words(language));
        for (number, outage) in (1..).zip(&self.letter.facts.outages) {
            self.outage(number, outage);
        }
    }

    fn outage(&mut self, number: usize, outage: &OutageDetail) {
        let (language, zone) = (self.language, self.zone);
        let counted = outage.counted;
        let time = duration(counted.1 - counted.0, language);
        let (from, to) = (self.local(counted.0), self.local(counted.1));
        self.say(phrase::claim_letter_outage(language, from, number, time, to));
        if zone != Zone::UTC {
            let (from, to) = (Timestamp(counted.0), Timestamp(counted.1));
            self.say(format!("   {}", phrase::claim_letter_utc(language, from, to)));
        }
        if outage.actual != counted {
            let (from, to) = (self.local(outage.actual.0), self.local(outage.actual.1));
            self.say(format!("   {}", phrase::claim_letter_actual(language, from, to)));
        }
        let grounds: Vec<String> =
            outage.grounds.iter().map(|(class, cause)| ground(class, cause, language)).collect();
        if !grounds.is_empty() {
            let grounds = grounds.join(Text::ClaimGroundAnd.words(language));
            self.say(format!("   {}", phrase::claim_letter_ground(language, grounds)));
        }
    }

    fn amount(&mut self) {
        let (letter, language) = (self.letter, self.language);
        self.say("");
        self.say(Text::ClaimLetterCredit.words(language));
        for line in arithmetic(letter.facts, language) {
            self.say(format!("   {line}"));
        }
        let form = match letter.facts.form.as_str() {
            "voucher" => Text::ClaimLetterVoucher,
            "hours" => Text::ClaimLetterHours,
            _ => Text::ClaimLetterMoney,
        };
        self.say(phrase::claim_letter_ask(language, letter.asked, form.words(language)));
    }

    fn terms(&mut self) {
        let (letter, language) = (self.letter, self.language);
        let facts = letter.facts;
        self.say("");
        if !facts.demands.is_empty() {
            self.say(Text::ClaimLetterDemands.words(language));
            for demand in &facts.demands {
                self.say(format!("   - {}", clean(demand)));
            }
        }
        if let Some(at) = letter.notified_at {
            let at = self.both(at);
            self.say(phrase::claim_letter_told(language, at));
        }
        let (url, read_on) = (clean(&facts.source.0), clean(&facts.source.1));
        self.say(phrase::claim_letter_terms(language, letter.profile, read_on, url));
        self.say(phrase::claim_letter_hash(language, letter.profile_hash));
        if !facts.is_reviewed {
            self.say(Text::ClaimLetterUnreviewed.words(language));
        }
        if let Some(at) = letter.deadline {
            let local = format::moment(at, self.zone, language, Detail::Minute);
            self.say(phrase::claim_letter_deadline(language, local, at));
        }
    }

    fn local(&self, ms: i64) -> String {
        format::moment(Timestamp(ms), self.zone, self.language, Detail::Second)
    }

    fn both(&self, at: Timestamp) -> String {
        instants(at, self.zone, self.language)
    }
}

/// How the amount came about, a line each.
pub(crate) fn arithmetic(facts: &ClaimFacts, language: Language) -> Vec<String> {
    let credit = &facts.credit;
    let mut lines: Vec<String> = credit.used.iter().map(|of| used(of, facts, language)).collect();
    if let (Some(below), Some(part)) = (credit.below_ppm, credit.share_ppm) {
        let (below, part) = (share(below, language), share(part, language));
        lines.push(phrase::claim_letter_tier(language, below, part));
    }
    if let Some(ms) = credit.credited_ms {
        lines.push(phrase::claim_letter_credited(language, duration(ms, language)));
    }
    let limits = credit.limits.iter().filter_map(|limit| match limit.as_str() {
        "cap" => Some(Text::ClaimLetterCap),
        "floor" => Some(Text::ClaimLetterFloor),
        "minimum" => Some(Text::ClaimLetterMinimum),
        _ => None,
    });
    lines.extend(limits.map(|limit| limit.words(language).to_owned()));
    lines
}

fn used(of: &UsedAmount, facts: &ClaimFacts, language: Language) -> String {
    let zone = Zone::parse(&facts.zone).unwrap_or(Zone::UTC);
    let name = match of.of.as_str() {
        "unit-charge" => Text::ClaimOfUnit,
        "lease-charge" => Text::ClaimOfLease,
        "prior-lease-charge" => Text::ClaimOfPriorLease,
        _ => Text::ClaimOfHour,
    };
    let source = if of.source == "bill" { Text::ClaimByBill } else { Text::ClaimByTerms };
    let day = |ms| format::local_date(Timestamp(ms), zone, language);
    let amount = clean(&of.amount);
    let (name, source) = (name.words(language), source.words(language));
    let window = phrase::lease_from_to(language, day(of.window.1), day(of.window.0));
    phrase::claim_letter_used(language, amount, name, source, window)
}

fn ground(class: &str, cause: &str, language: Language) -> String {
    let class = match class {
        "E1" => Text::ClaimClassAgent,
        "E2" => Text::ClaimClassCutOff,
        "E3" => Text::ClaimClassBoot,
        "E4" => Text::ClaimClassProbe,
        _ => Text::ClaimClassRecord,
    };
    let cause = match cause {
        "connectivity" => Text::ClaimCauseConnectivity,
        "disk" => Text::ClaimCauseDisk,
        "reboot" => Text::ClaimCauseReboot,
        "gpu_lost" => Text::ClaimCauseGpuLost,
        "gpu_replaced" => Text::ClaimCauseGpuReplaced,
        "gpu_count" => Text::ClaimCauseGpuCount,
        "fabric" => Text::ClaimCauseFabric,
        "throttle" => Text::ClaimCauseThrottle,
        _ => Text::ClaimCauseHardware,
    };
    phrase::claim_ground_of(language, cause.words(language), class.words(language))
}

fn duration(ms: i64, language: Language) -> String {
    Quantity::duration_ms(ms).text(language)
}

fn share(ppm: i64, language: Language) -> String {
    Quantity::ppm(ppm).text(language)
}

fn clean(text: &str) -> String {
    clean_text(text, 400)
}
