//! The samples as Prometheus' remote write sends them: protobuf in snappy, one request for a node
//! and some seconds.

use prost::Message;

use crate::data::{self, NodeSamples, READINGS};

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Point>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct Point {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

/// Headers of each request.
pub(super) const HEADERS: &str = "Content-Encoding: snappy\r\nContent-Type: application/x-protobuf\r\nX-Prometheus-Remote-Write-Version: 0.1.0\r\n";

/// How fine the values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resolution {
    /// As the agent records them.
    Declared,
    /// As a driver gives them.
    Native,
}

impl Resolution {
    pub(super) fn of(self, reading: usize, value: i64) -> f64 {
        let value = match self {
            Self::Declared => data::declared(reading, value),
            Self::Native => value,
        };
        // Exact: every value is far below 2^53.
        let magnitude = crate::measure::real(value.unsigned_abs());
        if value < 0 { -magnitude } else { magnitude }
    }
}

/// One node's series, which keep their labels from request to request.
pub(super) struct NodeSeries {
    request: WriteRequest,
    resolution: Resolution,
}

impl NodeSeries {
    pub(super) fn new(node: u64, gpus: usize, resolution: Resolution) -> anyhow::Result<Self> {
        let mut timeseries = Vec::with_capacity(gpus * READINGS);
        for gpu in 0..gpus {
            let (uuid, _) = data::gpu_names(node, gpu)?;
            for reading in 0..READINGS {
                let labels = [
                    ("__name__", format!("gpu_{}", data::name(reading))),
                    ("gpu", uuid.as_str().to_owned()),
                    ("instance", format!("bench-{node:05}")),
                    ("job", "bench".to_owned()),
                ];
                let labels = labels.map(|(name, value)| Label { name: name.to_owned(), value });
                timeseries.push(TimeSeries { labels: labels.to_vec(), samples: Vec::new() });
            }
        }
        Ok(Self { request: WriteRequest { timeseries }, resolution })
    }

    /// The body of a request with the samples of these seconds.
    pub(super) fn body(
        &mut self,
        samples: &NodeSamples,
        seconds: std::ops::Range<usize>,
    ) -> anyhow::Result<Vec<u8>> {
        let series = self.request.timeseries.chunks_mut(READINGS);
        for (series, samples) in series.zip(&samples.gpus) {
            let samples = samples.get(seconds.clone()).unwrap_or_default();
            for (reading, series) in series.iter_mut().enumerate() {
                series.samples.clear();
                series.samples.extend(samples.iter().map(|sample| Point {
                    value: self.resolution.of(reading, sample.values[reading]),
                    timestamp: sample.at_ms,
                }));
            }
        }
        Ok(snap::raw::Encoder::new().compress_vec(&self.request.encode_to_vec())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::SimulatedNode;

    #[test]
    fn a_request_holds_each_reading_once_for_each_second() {
        let samples = SimulatedNode::new(1, 2).seconds(1_000_000, 20);
        let mut series = NodeSeries::new(1, 2, Resolution::Declared).unwrap();
        let body = series.body(&samples, 10..20).unwrap();
        let plain = snap::raw::Decoder::new().decompress_vec(&body).unwrap();
        let request = WriteRequest::decode(&plain[..]).unwrap();
        assert_eq!(request.timeseries.len(), 2 * READINGS);
        assert!(request.timeseries.iter().all(|series| series.samples.len() == 10));
        let first = &request.timeseries[0];
        assert!(first.labels.is_sorted_by(|a, b| a.name < b.name));
        assert_eq!(first.samples[0].timestamp, samples.gpus[0][10].at_ms);
    }
}
