use super::*;

/// `cloud-gpus.csv`, a public table of GPU clouds, as it is.
const CLOUD_GPUS: &str = include_str!("data/r090-cloud-gpus.csv");
/// Rows of SkyPilot's public catalogue for three providers.
const LAMBDA: &str = include_str!("data/r093-a-lambda.csv");
const HYPERBOLIC: &str = include_str!("data/r093-b-hyperbolic.csv");
const RUNPOD: &str = include_str!("data/r093-c-runpod.csv");

fn usd() -> Currency {
    "USD".parse().unwrap()
}

fn read_known(text: &str) -> PriceTable {
    read(text, usd(), None).unwrap()
}

fn text(price: Option<Money>) -> String {
    price.map_or("-".to_owned(), |price| price.amount_text())
}

/// Instance, GPUs, on demand and spot per GPU-hour, key.
fn rows(table: &PriceTable) -> Vec<(String, u32, String, String, &'static str)> {
    let row = |offer: &Offer| {
        (
            offer.instance.clone().unwrap_or_default(),
            offer.gpu_count,
            text(offer.per_gpu_hour()),
            text(offer.spot_per_gpu_hour()),
            offer.gpu_key.unwrap_or("-"),
        )
    };
    table.offers.iter().map(row).collect()
}

#[test]
fn r090_a_table_of_many_providers() {
    let table = read_known(CLOUD_GPUS);
    assert_eq!(table.schema, Some(Schema::CloudGpus));
    let counts = (table.rows, table.offers.len(), table.duplicates, table.refused.len());
    // One row stands there three times; six rows of one provider have no instance price.
    assert_eq!(counts, (257, 249, 2, 6));
    assert!(table.refused.iter().all(|row| row.fault == RowFault::NoPrice), "{:?}", table.refused);
    let providers: HashSet<_> = table.offers.iter().map(|o| o.provider.clone()).collect();
    assert_eq!(providers.len(), 18);
}

#[test]
fn r090_a_gpu_hour_is_the_instance_over_its_gpus() {
    let table = read_known(CLOUD_GPUS);
    assert_eq!(table.per_gpu_differs, 24, "GPUs priced without what has to be rented with them");
    let of = |provider: &str, gpu: &str, count| {
        let offers = table.offers.iter().filter(move |offer| {
            offer.provider.as_deref() == Some(provider)
                && offer.gpu_name == gpu
                && offer.gpu_count == count
        });
        offers.map(|offer| text(offer.per_gpu_hour())).collect::<Vec<_>>()
    };
    assert_eq!(of("Cudo Compute", "A4000 (16 GB)", 8), ["0.36125", "0.37375"]);
    let cheapest = |provider: Option<&str>| {
        let offers = table.offers.iter().filter(|offer| {
            offer.gpu_name == "A100 (80 GB)"
                && provider.is_none_or(|name| offer.provider.as_deref() == Some(name))
        });
        let prices = offers.filter_map(|offer| Some((offer.per_gpu_hour()?.nanos, offer)));
        let (_, offer) = prices.min_by_key(|(nanos, _)| *nanos).unwrap();
        (offer.provider.clone().unwrap(), text(offer.per_gpu_hour()))
    };
    assert_eq!(cheapest(None), ("Dataoorts".to_owned(), "0.55".to_owned()));
    assert_eq!(cheapest(Some("Lambda")).1, "1.50");
    assert_eq!(cheapest(Some("AWS")).1, "5.12125");
}

#[test]
fn r093_lambda_has_a_row_without_gpu_and_no_spot() {
    let table = read_known(LAMBDA);
    assert_eq!(table.schema, Some(Schema::SkyPilot));
    assert_eq!(table.refused, [Refused { line: 2, fault: RowFault::NoGpu }]);
    assert_eq!(
        rows(&table),
        [
            ("gpu_8x_v100".to_owned(), 8, "0.55".to_owned(), "-".to_owned(), "-"),
            ("gpu_4x_a6000".to_owned(), 4, "0.80".to_owned(), "-".to_owned(), "RTX-A6000"),
            ("gpu_1x_a6000".to_owned(), 1, "0.80".to_owned(), "-".to_owned(), "RTX-A6000"),
            ("gpu_8x_a100".to_owned(), 8, "1.29".to_owned(), "-".to_owned(), "-"),
        ]
    );
}

#[test]
fn r093_hyperbolic_prices_differ_by_cpu_shape() {
    let table = read_known(HYPERBOLIC);
    assert_eq!(table.schema, Some(Schema::SkyPilotStorage));
    let prices: Vec<_> =
        rows(&table).into_iter().map(|(name, count, price, ..)| (name, count, price)).collect();
    let row = |name: &str, count, price: &str| (name.to_owned(), count, price.to_owned());
    assert_eq!(
        prices,
        [
            row("1x-H100-28-271", 1, "1.39"),
            row("8x-H100-224-2165", 8, "1.39"),
            row("1x-H100-224-2165", 1, "1.29"),
            row("1x-RTX4090-11-45", 1, "0.25"),
            row("4x-RTX4090-43-181", 4, "0.25"),
        ]
    );
    // The cell that Python wrote names the product as the driver does.
    let keys: Vec<_> = table.offers.iter().filter_map(|offer| offer.gpu_key).collect();
    assert_eq!(keys[..4], ["H100-SXM5-80GB", "H100-SXM5-80GB", "H100-SXM5-80GB", "RTX-4090"]);
}

#[test]
fn r093_runpod_is_cheaper_in_the_box_and_has_no_spot_of_one() {
    let table = read_known(RUNPOD);
    assert_eq!(table.schema, Some(Schema::SkyPilotZone));
    let prices: Vec<_> =
        rows(&table).into_iter().map(|(_, count, price, spot, _)| (count, price, spot)).collect();
    let row = |count, price: &str, spot: &str| (count, price.to_owned(), spot.to_owned());
    assert_eq!(
        prices,
        [
            row(1, "1.64", "1.19"),
            row(1, "1.64", "1.19"),
            row(8, "1.62", "1.19"),
            row(1, "1.89", "-"), // empty is neither 0 nor free
            row(8, "1.89", "-"),
        ]
    );
    assert_eq!(table.offers[1].region.as_deref(), Some("US"));
}

#[test]
fn other_tables_are_read_by_the_names_of_their_columns() {
    let text = "卡型,数量,时租\nRTX4090,1,1.98\nA40,2,0\nA40,2,免费\nA40,0.5,3\nA40,,3\nA40,1\n";
    assert!(matches!(read(text, usd(), None), Err(TableFault::Unknown(_))));
    let named = |price: &str| Columns {
        gpu: "卡型".to_owned(),
        count: "数量".to_owned(),
        on_demand: Some(price.to_owned()),
        ..Columns::default()
    };
    let wrong = read(text, usd(), Some(&named("月租")));
    assert!(matches!(wrong, Err(TableFault::Columns(ColumnsFault { name, .. })) if name == "月租"));
    let table = read(text, "CNY".parse().unwrap(), Some(&named("时租"))).unwrap();
    assert_eq!(table.offers[0].per_gpu_hour().unwrap().to_string(), "1.98 CNY");
    let faults: Vec<_> = table.refused.iter().map(|row| (row.line, row.fault.clone())).collect();
    assert_eq!(
        faults,
        [
            (3, RowFault::NotAboveZero("the price")),
            (4, RowFault::Number("the price")),
            (5, RowFault::Count),
            (6, RowFault::NoGpu),
            (7, RowFault::Shape),
        ]
    );
}

#[test]
fn what_is_no_table_is_refused() {
    assert_eq!(read("", usd(), None), Err(TableFault::NoHeader));
    assert!(matches!(read("a,b\n1,2\n", usd(), None), Err(TableFault::Unknown(_))));
    let control = "Cloud,GPU Type,GPUs,On-demand,Per-GPU,Spot,Name\nA,T4,1,1,1,,\"x\u{7}\"\n";
    assert_eq!(read_known(control).refused[0].fault, RowFault::Text);
}
