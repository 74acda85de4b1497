//! WCAG 2.2 AA: contrast of every pair of colours that carries text or a mark, light and dark.

use leasewatch_web::assets::{self, Asset};

fn variables(css: &str) -> [Vec<(String, [f64; 3])>; 2] {
    let (_, light) = css.split_once(":root {").expect("light colours");
    let (light, rest) = light.split_once('}').expect("closed");
    let (_, dark) = rest.split_once("prefers-color-scheme: dark").expect("dark colours");
    let (_, dark) = dark.split_once(":root {").expect("dark colours");
    let (dark, _) = dark.split_once('}').expect("closed");
    [light, dark].map(|block| {
        block
            .lines()
            .filter_map(|line| {
                let (name, value) = line.trim().strip_prefix("--")?.split_once(": #")?;
                Some((name.to_owned(), channels(value.trim_end_matches(';'))))
            })
            .collect()
    })
}

fn channels(hex: &str) -> [f64; 3] {
    let full: String =
        if hex.len() == 3 { hex.chars().flat_map(|c| [c, c]).collect() } else { hex.to_owned() };
    [0, 2, 4].map(|at| f64::from(u8::from_str_radix(&full[at..at + 2], 16).unwrap()) / 255.0)
}

fn luminance(colour: [f64; 3]) -> f64 {
    let linear =
        colour.map(|c| if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) });
    0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
}

fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

fn css() -> String {
    let url = Asset::Style.url();
    let file = assets::find(url.trim_start_matches("/assets/")).unwrap();
    String::from_utf8(file.bytes.into_owned()).unwrap()
}

#[test]
fn text_is_readable_in_light_and_dark() {
    let text = [
        ("ink", "paper"),
        ("ink", "surface"),
        ("muted", "paper"),
        ("muted", "surface"),
        ("accent", "paper"),
        ("accent", "surface"),
        ("fault", "paper"),
        ("notice", "paper"),
        ("muted", "b0"),
        ("on-low", "b1"),
        ("on-low", "b2"),
        ("on-mid", "b3"),
        ("on-high", "b4"),
        ("on-high", "b5"),
        ("on-origin", "simulated"),
        ("on-origin", "imported"),
        ("accent", "line"),
    ];
    let marks = [
        ("gap-ink", "surface"),
        ("gap-strong", "surface"),
        ("fault", "surface"),
        ("accent", "field"),
        ("accent", "surface"),
        ("s1", "surface"),
        ("s2", "surface"),
        ("s3", "surface"),
        ("s4", "surface"),
    ];
    for (scheme, colours) in variables(&css()).iter().enumerate() {
        let of = |name: &str| colours.iter().find(|(n, _)| n == name).expect("a colour").1;
        for (pairs, least) in [(&text[..], 4.5), (&marks[..], 3.0)] {
            for (front, back) in pairs {
                let ratio = contrast(of(front), of(back));
                assert!(ratio >= least, "scheme {scheme}: {front} on {back} is {ratio:.2}");
            }
        }
    }
}

#[test]
fn steps_rise_in_lightness_alone() {
    for colours in variables(&css()) {
        let steps: Vec<f64> = (0..6)
            .map(|step| {
                luminance(colours.iter().find(|(n, _)| *n == format!("b{step}")).unwrap().1)
            })
            .collect();
        let ratios: Vec<f64> =
            steps.windows(2).map(|pair| (pair[1] + 0.05) / (pair[0] + 0.05)).collect();
        let rises = ratios.iter().all(|ratio| *ratio > 1.12);
        let falls = ratios.iter().all(|ratio| *ratio < 1.0 / 1.12);
        assert!(rises || falls, "{ratios:?}");
    }
}
