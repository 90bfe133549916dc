//! The inputs of a stream beside training's: a field that breaks is told, and a moved class is not taken for one.

use std::{borrow::Cow, fs, sync::Arc};

use ostar_bundle::{
    Bundle,
    fields::{Field, FieldBlock, FieldKind, FieldSchema, FieldValue},
    fit::{FitSettings, Labelled, LabelledRows, fit},
};
use ostar_engine::Generator;
use ostar_method::{
    alarms::{AlarmReport, AlarmSettings, Alarms, BlockStatistics},
    learner::{InputSample, Learner, LearnerSettings},
    profile::{InputProfile, Tally, Trouble},
    proportions::LabelProportions,
};

const COUNTRIES: [&str; 6] = ["DE", "FR", "IT", "US", "CN", "BR"];

/// An order: price, country, words; frauds are dearer, and from elsewhere.
#[derive(Debug, Clone)]
struct Order {
    price: Option<f64>,
    country: Option<String>,
    note: String,
}

fn order(random: &mut Generator, fraud: bool) -> Order {
    let price = (2.0 + f64::from(u8::from(fraud)) + 0.8 * random.normal()).exp();
    let place = (random.uniform() * 4.0) as usize + if fraud { 2 } else { 0 };
    // A long tail of words, of which every stream has new ones.
    let word = |random: &mut Generator| format!("w{}", (1.0 / random.uniform()) as u64);
    let words: Vec<String> = (0..4).map(|_| word(random)).collect();
    Order {
        price: (random.uniform() > 0.02).then_some(price),
        country: Some(COUNTRIES[place].to_owned()),
        note: words.join(" "),
    }
}

fn schema() -> FieldSchema {
    let field = |name: &str, kind| Field {
        name: name.into(),
        kind,
    };
    let number = FieldKind::Number {
        mean: 0.0,
        deviation: 1.0,
    };
    FieldSchema {
        fields: vec![
            field("note", FieldKind::Text),
            field("price", number),
            field("country", FieldKind::Category),
        ],
        buckets: 1 << 16,
    }
}

fn value<'a>(order: &'a Order, name: &str) -> FieldValue<'a> {
    match name {
        "price" => order.price.map_or(FieldValue::Missing, FieldValue::Number),
        "country" => order
            .country
            .as_deref()
            .map_or(FieldValue::Missing, FieldValue::Text),
        _ => FieldValue::Text(&order.note),
    }
}

fn orders(random: &mut Generator, count: usize, frauds: f64) -> (Vec<Order>, Vec<u32>) {
    let mut one = |_| {
        let fraud = random.uniform() < frauds;
        (order(random, fraud), u32::from(fraud))
    };
    (0..count).map(&mut one).unzip()
}

fn block(schema: &FieldSchema, orders: &[Order]) -> FieldBlock {
    let mut block = FieldBlock::default();
    for order in orders {
        schema.push(|name| value(order, name), &mut block).unwrap();
    }
    block
}

fn bundle() -> Bundle {
    let (orders, labels) = orders(&mut Generator::new(1), 2_000, 0.3);
    let mut schema = schema();
    let rows = orders
        .iter()
        .map(|order| move |name: &str| value(order, name));
    schema.measure(rows).unwrap();
    let block = block(&schema, &orders);
    let classes = ["good", "fraud"].map(str::to_owned);
    let labelled = Labelled {
        classes: &classes,
        labels: &labels,
        rows: LabelledRows::Fields {
            schema: &schema,
            block: &block,
        },
    };
    let settings = FitSettings {
        epochs: 1,
        ..FitSettings::default()
    };
    fit(labelled, &settings, &mut |_| ()).unwrap()
}

/// A stream of orders that a pipeline may break.
struct Stream {
    random: Generator,
    schema: FieldSchema,
    profile: Arc<InputProfile>,
    alarms: Alarms,
    block: u64,
}

impl Stream {
    fn new(bundle: &Bundle, seed: u64) -> Self {
        let profile = Arc::new(bundle.inputs().unwrap().clone());
        let training = LabelProportions::from_counts(&[0.7, 0.3]).unwrap();
        let ostar_bundle::Input::Fields(schema) = &bundle.description().input else {
            panic!("the bundle has fields");
        };
        Self {
            random: Generator::new(seed),
            schema: schema.clone(),
            alarms: Alarms::new(AlarmSettings::default(), training)
                .with_inputs(Some(Arc::clone(&profile))),
            profile,
            block: 0,
        }
    }

    fn observe(&mut self, frauds: f64, breakage: impl Fn(&mut Order, usize)) -> AlarmReport {
        let (mut orders, _) = orders(&mut self.random, 125, frauds);
        let broken = orders.iter_mut().enumerate();
        broken.for_each(|(number, order)| breakage(order, number));
        let rows = block(&self.schema, &orders);
        self.alarms.count_inputs(rows.inputs(), orders.len());
        self.block += 1;
        let noise = 0.03 * self.random.normal();
        let shares = [1.0 - frauds - noise, frauds + noise];
        self.alarms.observe(BlockStatistics {
            block: self.block,
            shares: Some(&shares),
            intervals: None,
            shape: None,
        })
    }

    /// Blocks until a field breaks, and what is told of it.
    fn until_broken(&mut self, breakage: impl Fn(&mut Order, usize)) -> (u64, String, String) {
        for blocks in 1..=40 {
            let report = self.observe(0.3, &breakage);
            if let Some(alarm) = report.broken.first() {
                return (blocks, alarm.field.clone(), alarm.told.clone());
            }
        }
        panic!("nothing was told within 40 blocks");
    }
}

fn intact(_: &mut Order, _: usize) {}

#[test]
fn a_stream_like_training_and_one_whose_shares_move_break_no_field() {
    let bundle = bundle();
    for seed in 0..4 {
        let mut stream = Stream::new(&bundle, 10 + seed);
        for block in 0..300 {
            // From 0.3 to 0.8 and back, slowly, then at once.
            let frauds = match block {
                0..100 => 0.3,
                100..200 => 0.3 + 0.005 * f64::from(block - 100),
                _ => 0.3,
            };
            let report = stream.observe(frauds, intact);
            assert_eq!(report.inputs.len(), 3);
            assert!(report.broken.is_empty(), "{block}: {:?}", report.broken);
        }
    }
}

#[test]
fn what_breaks_is_told_in_words_within_a_few_blocks_and_taken_back_when_it_is_repaired() {
    type Breakage = fn(&mut Order, usize);
    let cases: [(Breakage, &str, &str); 5] = [
        (
            |order, _| order.price = None,
            "price",
            "`price` is missing in",
        ),
        (
            |order, number| {
                if number % 2 == 0 {
                    order.price = None;
                }
            },
            "price",
            "`price` is missing in",
        ),
        (
            |order, _| order.price = order.price.map(|price| 1_000.0 * price),
            "price",
            "as if its unit had changed: about 1000 times training's",
        ),
        (
            |order, _| order.price = order.price.map(|price| price / 100.0),
            "price",
            "as if its unit had changed: about 1/100 of training's",
        ),
        (
            |order, _| order.country = order.country.take().map(|name| name.to_lowercase()),
            "country",
            "`country` has values that training did not have in",
        ),
    ];
    let bundle = bundle();
    for (breakage, field, words) in cases {
        let mut stream = Stream::new(&bundle, 3);
        for _ in 0..60 {
            assert!(stream.observe(0.3, intact).broken.is_empty());
        }
        let (blocks, broken, told) = stream.until_broken(breakage);
        assert!(blocks <= 6, "{words}: {blocks} blocks");
        assert_eq!(broken, field);
        // The window still holds intact blocks when it is told.
        for _ in 0..20 {
            stream.observe(0.3, breakage);
        }
        let report = stream.observe(0.3, breakage);
        let status = report
            .inputs
            .iter()
            .find(|input| input.report.name == field);
        let status = status.unwrap();
        assert!(status.broken, "{words}");
        assert!(
            status.report.to_string().contains(words),
            "{}, not {words} ({told})",
            status.report
        );
        let others = report
            .inputs
            .iter()
            .filter(|input| input.report.name != field);
        assert!(others.clone().all(|input| !input.broken), "{words}");
        let repaired = (0..40).any(|_| {
            let report = stream.observe(0.3, intact);
            report.inputs.iter().all(|input| !input.broken)
        });
        assert!(repaired, "{words}");
    }
}

#[test]
fn a_field_that_is_broken_from_the_start_is_told_at_once() {
    let mut stream = Stream::new(&bundle(), 4);
    let (blocks, field, told) = stream.until_broken(|order, _| order.price = None);
    assert_eq!((blocks, field.as_str()), (2, "price"));
    assert!(told.contains("is missing in 100.0 % of events"), "{told}");
}

#[test]
fn a_restart_remembers_what_broke() {
    let bundle = bundle();
    let settings = LearnerSettings::default();
    let mut learner =
        Learner::new(&bundle.deployed().unwrap(), settings.clone()).unwrap();
    let mut stream = Stream::new(&bundle, 5);
    let mut report = None;
    for _ in 0..4 {
        let (mut orders, _) = orders(&mut stream.random, 500, 0.3);
        orders.iter_mut().for_each(|order| order.price = None);
        let rows = block(&stream.schema, &orders);
        let scores = learner.model().scores(rows.inputs()).unwrap();
        let sample = InputSample {
            inputs: rows.inputs(),
            rows: orders.len(),
        };
        learner.follow(scores.all(), Some(sample)).unwrap();
        report = Some(learner.close(&[], &[]).unwrap().alarms);
    }
    let report = report.unwrap();
    assert!(report.inputs[1].broken, "{report:?}");
    let saved = learner.save().unwrap();
    let restored =
        Learner::load(&bundle.deployed().unwrap(), settings, &saved)
            .unwrap();
    let remembered = restored.alarms().inputs;
    assert!(remembered[1].broken);
    assert_eq!(remembered[1].since_block, report.inputs[1].since_block);
    assert_eq!(restored.save().unwrap(), saved);
}

#[test]
fn the_profile_is_kept_with_the_bundle_and_earlier_bundles_load_without_one() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = bundle();
    bundle.save(folder.path()).unwrap();
    let loaded = Bundle::load(folder.path()).unwrap();
    assert_eq!(loaded.inputs(), bundle.inputs());
    assert_eq!(loaded, bundle);
    let inputs = folder.path().join("inputs.json");
    let text = fs::read_to_string(&inputs).unwrap();
    fs::write(&inputs, text.replace("\"price\"", "\"prize\"")).unwrap();
    let refused = Bundle::load(folder.path()).unwrap_err().to_string();
    assert!(
        refused.contains("has field `prize`, expected `price`"),
        "{refused}"
    );
    fs::write(&inputs, "{}").unwrap();
    assert!(Bundle::load(folder.path()).is_err());
    fs::remove_file(&inputs).unwrap();
    let without = Bundle::load(folder.path()).unwrap();
    assert_eq!(without.inputs(), None);
    assert_eq!(without.digest(), bundle.digest());
    let learner =
        Learner::new(&without.deployed().unwrap(), Default::default())
            .unwrap();
    assert!(learner.alarms().inputs.is_empty());
}

#[test]
fn a_hundred_events_show_what_is_wrong() {
    let bundle = bundle();
    let stream = Stream::new(&bundle, 6);
    let look = |breakage: &dyn Fn(&mut Order)| {
        let (mut orders, _) = orders(&mut Generator::new(8), 100, 0.3);
        orders.iter_mut().for_each(breakage);
        let rows = block(&stream.schema, &orders);
        let mut tally = Tally::default();
        tally.add(&stream.profile, rows.inputs(), orders.len());
        stream.profile.compare(&tally, 100.0, &[0.7, 0.3])
    };
    let fine = look(&|_| ());
    assert!(fine.iter().all(|field| field.trouble.is_none()), "{fine:?}");
    let dear = look(&|order| order.price = order.price.map(|price| 1_000.0 * price));
    assert_eq!(dear[1].trouble, Some(Trouble::Beyond));
    assert_eq!(dear[1].factor, Some(1_000.0));
    assert!(dear[0].trouble.is_none() && dear[2].trouble.is_none());
    let range = stream.profile.range(1).unwrap();
    assert!(
        range.0 > 0.0 && range.1 > 50.0 && range.1 < 2_000.0,
        "{range:?}"
    );
    assert_eq!(stream.profile.range(2), None);
    // Several countries of one order count as one order.
    let texts = [Cow::Borrowed("DE"), Cow::Borrowed("XX")];
    let mut rows = FieldBlock::default();
    let country = |name: &str| match name {
        "country" => FieldValue::Texts(&texts),
        _ => FieldValue::Missing,
    };
    stream.schema.push(country, &mut rows).unwrap();
    let mut tally = Tally::default();
    tally.add(&stream.profile, rows.inputs(), 1);
    let report = &stream.profile.compare(&tally, 1.0, &[0.7, 0.3])[2];
    assert_eq!(report.unknown, Some(0.5));
    assert_eq!(report.missing, 0.0);
}
