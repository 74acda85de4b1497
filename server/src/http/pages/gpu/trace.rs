//! What is drawn, gathered on the grid: bands of series, gaps, reasons. Pure; it knows no store.
//!
//! A bucket's least and most are those of everything in it, so a peak never vanishes, and its mean
//! is weighted by time. A bucket without anything breaks the line, and so does another GPU.

use std::collections::BTreeMap;

use leasewatch_core::id::GpuUuid;
use leasewatch_core::metering::GapCause;
use leasewatch_core::sample::{Metric, Unit};
use leasewatch_core::time::Period;
use leasewatch_web::chart::{Band, Point};
use leasewatch_web::format::Measured;
use leasewatch_web::pages::gpu::{GapShare, ReasonLane, ReasonStretch, Series, SeriesKey};

use super::plan::Plan;

/// Stretches beyond this many are told by bucket, so that a page stays a page.
const STRETCHES_MAX: usize = 420;

/// Values of one bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sum {
    pub(super) min: i64,
    pub(super) max: i64,
    /// Sum of value x weight.
    pub(super) weighted: i128,
    pub(super) weight: i128,
}

impl Sum {
    /// One value.
    pub(super) fn of(value: i64, weight: i64) -> Self {
        let weight = i128::from(weight);
        Self { min: value, max: value, weighted: i128::from(value) * weight, weight }
    }

    /// Growth of a counter per second, in the unit of [`SeriesKey::Rate`]; `None` for no time.
    pub(super) fn of_growth(metric: Metric, growth: i64, ms: i64) -> Option<Self> {
        let (times, per) = if metric.unit() == Unit::Nanosecond { (1, 1_000) } else { (1_000, 1) };
        let (weighted, weight) = (i128::from(growth) * times, i128::from(ms) * per);
        let rate = divided(weighted, weight)?;
        Some(Self { min: rate, max: rate, weighted, weight })
    }

    fn merge(&mut self, other: Self) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.weighted += other.weighted;
        self.weight += other.weight;
    }

    fn band(self) -> Option<Band> {
        let mean = divided(self.weighted, self.weight)?.clamp(self.min, self.max);
        Some(Band { min: self.min, mean, max: self.max })
    }
}

fn divided(sum: i128, weight: i128) -> Option<i64> {
    let mean = (weight > 0).then(|| leasewatch_core::metering::divide_half_even(sum, weight));
    mean.and_then(|mean| i64::try_from(mean).ok())
}

type Buckets = Vec<Option<Sum>>;

/// Everything that is drawn of a slot over a range.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) plan: Plan,
    /// GPUs in the order in which they sat in the slot.
    pub(super) gpus: Vec<GpuUuid>,
    pub(super) sums: Measured,
    /// False when some enrolled time of the range is not in `sums`.
    pub(super) is_whole: bool,
    series: BTreeMap<SeriesKey, Vec<Buckets>>,
    gaps: Vec<(Period, GapCause)>,
    shares: BTreeMap<(usize, GapCause), i64>,
    reasons: BTreeMap<u8, Vec<Period>>,
    /// Per bucket: for how long reasons are known, and how long each held.
    known_ms: Vec<i64>,
    held_ms: BTreeMap<u8, Vec<i64>>,
}

impl Trace {
    pub(super) fn new(plan: Plan) -> Self {
        Self {
            plan,
            gpus: Vec::new(),
            sums: Measured::default(),
            is_whole: true,
            series: BTreeMap::new(),
            gaps: Vec::new(),
            shares: BTreeMap::new(),
            reasons: BTreeMap::new(),
            known_ms: vec![0; plan.count()],
            held_ms: BTreeMap::new(),
        }
    }

    /// The buckets of one series of a GPU; it is not there before something is added.
    fn buckets(&mut self, gpu: &GpuUuid, key: SeriesKey) -> &mut Buckets {
        let number = self.gpus.iter().position(|known| known == gpu).unwrap_or_else(|| {
            self.gpus.push(gpu.clone());
            self.gpus.len() - 1
        });
        let of_gpus = self.series.entry(key).or_default();
        while of_gpus.len() <= number {
            of_gpus.push(vec![None; self.plan.count()]);
        }
        &mut of_gpus[number]
    }

    /// Adds what stretches say, each spread over its time.
    pub(super) fn add_stretches(
        &mut self,
        gpu: &GpuUuid,
        key: SeriesKey,
        stretches: impl Iterator<Item = (Period, i64)>,
    ) {
        let plan = self.plan;
        let buckets = self.buckets(gpu, key);
        for (period, value) in stretches {
            for (index, part) in plan.parts(period) {
                merge(&mut buckets[index], Sum::of(value, part.ms()));
            }
        }
    }

    /// Adds what counters grew by, each spread evenly over its time.
    pub(super) fn add_growth(
        &mut self,
        gpu: &GpuUuid,
        metric: Metric,
        growth: impl Iterator<Item = (Period, i64)>,
    ) {
        let plan = self.plan;
        let buckets = self.buckets(gpu, SeriesKey::Rate(metric));
        for (period, delta) in growth {
            let Some(whole) = Sum::of_growth(metric, delta, period.ms()) else { continue };
            for (index, part) in plan.parts(period) {
                let (ms, all) = (i128::from(part.ms()), i128::from(period.ms()));
                let (weighted, weight) = (whole.weighted * ms / all, whole.weight * ms / all);
                merge(&mut buckets[index], Sum { weighted, weight, ..whole });
            }
        }
    }

    /// Adds sums of cells that each lie in one bucket.
    pub(super) fn add_cells(
        &mut self,
        gpu: &GpuUuid,
        key: SeriesKey,
        cells: impl Iterator<Item = (Period, Option<Sum>)>,
    ) {
        let plan = self.plan;
        let mut cells =
            cells.filter_map(|(cell, sum)| Some((plan.index(cell.start)?, sum?))).peekable();
        if cells.peek().is_some() {
            let buckets = self.buckets(gpu, key);
            cells.for_each(|(index, sum)| merge(&mut buckets[index], sum));
        }
    }

    /// Adds missing time whose place is known.
    pub(super) fn add_gap(&mut self, period: Period, cause: GapCause) {
        let inside = period.intersect(self.plan.range);
        match self.gaps.last_mut() {
            _ if inside.is_empty() => {}
            Some((last, of)) if *of == cause && last.end == inside.start => last.end = inside.end,
            _ => self.gaps.push((inside, cause)),
        }
    }

    /// Adds missing time of a cell that lies in one bucket.
    pub(super) fn add_gap_share(&mut self, cell: Period, cause: GapCause, ms: i64) {
        if let Some(index) = self.plan.index(cell.start) {
            *self.shares.entry((index, cause)).or_default() += ms;
        }
    }

    /// Adds a stretch with the bits that held in it.
    pub(super) fn add_reasons(&mut self, period: Period, mask: i64) {
        for bit in (0..63).filter(|bit| mask >> bit & 1 == 1) {
            let inside = period.intersect(self.plan.range);
            let stretches = self.reasons.entry(bit).or_default();
            match stretches.last_mut() {
                _ if inside.is_empty() => {}
                Some(last) if last.end == inside.start => last.end = inside.end,
                _ => stretches.push(inside),
            }
        }
        for (index, part) in self.plan.parts(period) {
            self.known_ms[index] += part.ms();
        }
    }

    /// Adds for how long reasons are known in a cell that lies in one bucket.
    pub(super) fn add_known(&mut self, cell: Period, ms: i64) {
        if let Some(index) = self.plan.index(cell.start) {
            self.known_ms[index] += ms;
        }
    }

    /// Adds for how long a reason held in a cell that lies in one bucket.
    pub(super) fn add_held(&mut self, cell: Period, bit: u8, ms: i64) {
        if let Some(index) = self.plan.index(cell.start).filter(|_| ms > 0) {
            let held = self.held_ms.entry(bit).or_insert_with(|| vec![0; self.plan.count()]);
            held[index] += ms;
        }
    }

    /// The series that hold anything.
    pub(super) fn series(&self) -> Vec<Series> {
        let series = self
            .series
            .iter()
            .map(|(key, of_gpus)| Series { what: *key, points: self.points(of_gpus) });
        series.filter(|series| series.points.iter().any(|point| point.band.is_some())).collect()
    }

    fn points(&self, of_gpus: &[Buckets]) -> Vec<Point> {
        let mut points: Vec<Point> = Vec::new();
        let mut drawn: Option<usize> = None;
        for index in 0..self.plan.count() {
            let at = self.plan.bucket(index).start;
            let mut is_empty = true;
            for (gpu, buckets) in of_gpus.iter().enumerate() {
                let Some(band) = buckets[index].and_then(Sum::band) else { continue };
                if drawn.is_some_and(|drawn| drawn != gpu) {
                    points.push(Point { at, band: None });
                }
                points.push(Point { at, band: Some(band) });
                (drawn, is_empty) = (Some(gpu), false);
            }
            if is_empty && drawn.take().is_some() {
                points.push(Point { at, band: None });
            }
        }
        points.pop_if(|point| point.band.is_none());
        points
    }

    /// Gaps whose place is known, and by bucket those of which only the amount is. Where there are
    /// too many, those shorter than a bucket are told by bucket.
    pub(super) fn gaps(&self) -> (Vec<(Period, GapCause)>, Vec<GapShare>) {
        let (mut gaps, mut shares) = (self.gaps.clone(), self.shares.clone());
        if gaps.len() > STRETCHES_MAX {
            let is_short = |gap: &(Period, GapCause)| gap.0.ms() < self.plan.bucket_ms;
            for (period, cause) in gaps.iter().filter(|gap| is_short(gap)) {
                for (index, part) in self.plan.parts(*period) {
                    *shares.entry((index, *cause)).or_default() += part.ms();
                }
            }
            gaps.retain(|gap| !is_short(gap));
        }
        gaps.sort_by_key(|(period, _)| *period);
        let share = |((index, cause), ms)| GapShare { period: self.plan.bucket(index), cause, ms };
        (gaps, shares.into_iter().map(share).collect())
    }

    /// A lane for each reason that held.
    pub(super) fn lanes(&self) -> Vec<ReasonLane> {
        let mut lanes: BTreeMap<u8, Vec<ReasonStretch>> = BTreeMap::new();
        let mut held_ms = self.held_ms.clone();
        for (bit, stretches) in &self.reasons {
            if stretches.len() <= STRETCHES_MAX {
                let exact =
                    |period: &Period| ReasonStretch { period: *period, share_permille: 1_000 };
                lanes.insert(*bit, stretches.iter().map(exact).collect());
                continue;
            }
            let held = held_ms.entry(*bit).or_insert_with(|| vec![0; self.plan.count()]);
            for (index, part) in stretches.iter().flat_map(|period| self.plan.parts(*period)) {
                held[index] += part.ms();
            }
        }
        for (bit, held) in &held_ms {
            lanes.entry(*bit).or_insert_with(|| self.shares_of(held));
        }
        lanes.retain(|_, stretches| !stretches.is_empty());
        lanes.into_iter().map(|(bit, stretches)| ReasonLane { bit, stretches }).collect()
    }

    fn shares_of(&self, held: &[i64]) -> Vec<ReasonStretch> {
        let mut stretches: Vec<ReasonStretch> = Vec::new();
        for (index, (held, known)) in held.iter().zip(&self.known_ms).enumerate() {
            let share = divided(i128::from(*held) * 1_000, i128::from(*known));
            let Some(share) = share.filter(|_| *held > 0) else { continue };
            let (period, share_permille) = (self.plan.bucket(index), share.clamp(1, 1_000));
            match stretches.last_mut() {
                Some(last)
                    if last.period.end == period.start && last.share_permille == share_permille =>
                {
                    last.period.end = period.end;
                }
                _ => stretches.push(ReasonStretch { period, share_permille }),
            }
        }
        stretches
    }
}

fn merge(bucket: &mut Option<Sum>, sum: Sum) {
    match bucket {
        Some(known) => known.merge(sum),
        None => *bucket = Some(sum),
    }
}

#[cfg(test)]
mod tests {
    use leasewatch_core::time::Timestamp;
    use leasewatch_web::pages::gpu::Detail;
    use proptest::prelude::*;

    use super::*;

    fn period(start: i64, end: i64) -> Period {
        Period::new(Timestamp(start), Timestamp(end))
    }

    fn trace(ms: i64, bucket_ms: i64) -> Trace {
        Trace::new(Plan { range: period(0, ms), detail: Detail::Readings, bucket_ms })
    }

    fn gpu(number: u8) -> GpuUuid {
        GpuUuid::new(&format!("GPU-{number}")).unwrap()
    }

    /// Start, and least, mean and most.
    type Row = (i64, Option<(i64, i64, i64)>);

    fn bands(trace: &Trace) -> Vec<Row> {
        let points = trace.series().remove(0).points.into_iter();
        points.map(|p| (p.at.0, p.band.map(|b| (b.min, b.mean, b.max)))).collect()
    }

    #[test]
    fn means_are_weighted_by_time_peaks_stay_and_nothing_is_a_break() {
        let mut trace = trace(50, 10);
        let values = [(period(0, 9), 0), (period(9, 10), 1_000), (period(20, 35), 7)];
        trace.add_stretches(&gpu(1), SeriesKey::Busy, values.into_iter());
        assert_eq!(
            bands(&trace),
            [(0, Some((0, 100, 1_000))), (10, None), (20, Some((7, 7, 7))), (30, Some((7, 7, 7)))]
        );
    }

    #[test]
    fn another_gpu_breaks_the_line_without_a_bucket_between() {
        let mut trace = trace(30, 10);
        trace.add_stretches(&gpu(1), SeriesKey::Busy, [(period(0, 14), 5)].into_iter());
        trace.add_stretches(&gpu(2), SeriesKey::Busy, [(period(14, 30), 9)].into_iter());
        let (old, new) = (Some((5, 5, 5)), Some((9, 9, 9)));
        assert_eq!(bands(&trace), [(0, old), (10, old), (10, None), (10, new), (20, new)]);
    }

    #[test]
    fn growth_is_a_rate_in_the_unit_that_its_name_says() {
        let rate = |metric, growth, ms| Sum::of_growth(metric, growth, ms).unwrap().min;
        assert_eq!(rate(Metric::Energy, 42_000_000, 60_000), 700_000, "mJ in a minute are mW");
        assert_eq!(rate(Metric::ThrottleSwPower, 30_000_000_000, 60_000), 500, "ns are permille");
        assert_eq!(rate(Metric::PcieTx, 6_000, 60_000), 100, "KiB are KiB/s");
        assert!(Sum::of_growth(Metric::Energy, 5, 0).is_none());
    }

    #[test]
    fn many_short_gaps_are_told_by_bucket_and_none_is_lost() {
        let mut trace = trace(100_000, 1_000);
        trace.add_gap(period(90_000, 95_000), GapCause::GpuLost);
        for start in 0..500 {
            trace.add_gap(period(start * 100, start * 100 + 7), GapCause::Unexplained);
        }
        let (gaps, shares) = trace.gaps();
        assert_eq!(gaps, [(period(90_000, 95_000), GapCause::GpuLost)]);
        assert_eq!(shares.iter().map(|share| share.ms).sum::<i64>(), 3_500);
        assert!(shares.iter().all(|share| share.cause == GapCause::Unexplained && share.ms == 70));
    }

    proptest! {
        #[test]
        fn a_band_holds_its_mean_and_rates_keep_what_grew(
            parts in proptest::collection::vec((1_i64..400, 0_i64..1_000_000), 1..60),
            bucket_ms in 1_i64..200,
        ) {
            let length: i64 = parts.iter().map(|(ms, _)| ms).sum();
            let mut trace = trace(length, bucket_ms);
            let mut at = 0;
            let growth: Vec<(Period, i64)> = parts
                .iter()
                .map(|(ms, delta)| {
                    at += ms;
                    (period(at - ms, at), *delta)
                })
                .collect();
            trace.add_growth(&gpu(1), Metric::PcieTx, growth.iter().copied());
            trace.add_stretches(&gpu(1), SeriesKey::Busy, growth.iter().copied());
            for series in trace.series() {
                for band in series.points.iter().filter_map(|point| point.band) {
                    prop_assert!(band.min <= band.mean && band.mean <= band.max);
                }
                let most = series.points.iter().filter_map(|p| p.band).map(|b| b.max).max();
                if series.what == SeriesKey::Busy {
                    prop_assert_eq!(most, growth.iter().map(|(_, value)| *value).max());
                }
            }
        }
    }
}
