//! Orders of a shop with named fields, as teams have them: nested JSON that nobody wrote for ostard.

use anyhow::Result;
use ostar_engine::Generator;
use serde_json::{Value, json};

/// An order as the classifier's training data has it.
#[derive(Debug, Clone)]
pub struct Order {
    /// In euros.
    pub price: f64,
    /// A code of two letters.
    pub country: &'static str,
    /// Words that describe what was bought.
    pub tags: Vec<&'static str>,
    /// Its class: `good` or `fraud`.
    pub fraud: bool,
}

const COUNTRIES: [&str; 6] = ["DE", "FR", "IT", "US", "CN", "BR"];
const TAGS: [&str; 8] = [
    "book", "food", "toy", "garden", "phone", "gift", "card", "watch",
];

/// Orders of which a share are frauds: dearer ones, from elsewhere, of things that are easily sold.
pub fn draw(count: usize, frauds: f64, seed: u64) -> Vec<Order> {
    let mut random = Generator::new(seed);
    let order = |_| {
        let fraud = random.uniform() < frauds;
        let more = if fraud { 2 } else { 0 };
        let mut pick = |among: usize| (random.uniform() * among as f64) as usize;
        let country = COUNTRIES[pick(4) + more];
        let tags = vec![TAGS[pick(4) + 2 * more], TAGS[pick(6) + more]];
        Order {
            price: (2.0 + f64::from(u8::from(fraud)) + 0.8 * random.normal()).exp(),
            country,
            tags,
            fraud,
        }
    };
    (0..count).map(order).collect()
}

impl Order {
    /// A line of the labelled data.
    pub fn labelled(&self) -> Value {
        let label = if self.fraud { "fraud" } else { "good" };
        json!({"price": self.price, "country": self.country, "tags": self.tags, "label": label})
    }

    /// An event as the shop writes it.
    pub fn event(&self, number: usize) -> Value {
        json!({
            "meta": {"id": format!("order-{number}"), "at": "2026-01-31T12:00:00Z"},
            "item": {"price": self.price, "tags": self.tags},
            "geo": {"country": self.country, "zone": "CET"},
            "weight": 3,
        })
    }
}

/// Writes labelled data as JSON lines.
pub fn write_labelled(path: &std::path::Path, orders: &[Order]) -> Result<()> {
    let lines: Vec<String> = orders.iter().map(|o| o.labelled().to_string()).collect();
    Ok(std::fs::write(path, lines.join("\n"))?)
}

/// Settings that find the fields of [`Order::event`].
pub const PLACES: [(&str, &str); 5] = [
    ("events.fields.price", "/item/price"),
    ("events.fields.country", "geo.country"),
    ("events.fields.tags", "item.tags"),
    ("events.id_field", "/meta/id"),
    ("events.time_field", "/meta/at"),
];
