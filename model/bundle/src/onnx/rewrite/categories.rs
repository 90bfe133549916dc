//! Texts as numbers: every text that the graph knows has one, so that tensors of texts become tensors of whole numbers.

use std::collections::BTreeSet;

use tract_onnx::pb::{NodeProto, tensor_proto::DataType};

use super::{Rewriter, input_of, output_of};
use crate::onnx::graph::{
    Graph, attribute, integer_attribute, integers, integers_attribute, numbers, positions, texts,
};

/// Attributes that list texts of the graph's tensors.
const LISTS: [&str; 4] = [
    "cats_strings",
    "keys_strings",
    "classes_strings",
    "values_strings",
];

/// All texts that nodes of the graph know.
pub(super) fn of(graph: &Graph) -> BTreeSet<String> {
    let known = ["OneHotEncoder", "LabelEncoder", "CategoryMapper"];
    let nodes = graph.graph.node.iter();
    nodes
        .filter(|node| known.contains(&node.op_type.as_str()))
        .flat_map(|node| LISTS.into_iter().flat_map(|list| texts(node, list)))
        .collect()
}

impl Rewriter<'_> {
    /// Numbers of texts in the graph.
    fn numbers_of(&self, texts: &[String]) -> Vec<i64> {
        let positions = positions(self.categories);
        texts
            .iter()
            .map(|text| 1 + positions[text.as_str()] as i64)
            .collect()
    }

    /// One column a category, 1 where x is it.
    pub(super) fn one_hot_encoder(&mut self, node: &NodeProto) -> Result<(), String> {
        let (input, output) = (input_of(node)?, output_of(node, 0)?);
        let texts = texts(node, "cats_strings");
        let categories = if texts.is_empty() {
            integers(node, "cats_int64s").to_vec()
        } else {
            self.numbers_of(&texts)
        };
        if categories.is_empty() {
            return Err("has no categories".into());
        }
        let categories = self.integers(output, "categories", &[categories.len()], categories);
        let whole = format!("{output}/ostard/whole");
        self.cast(input, &whole, DataType::Int64);
        let column = format!("{output}/ostard/column");
        // With version 13 the axes became an input.
        if self.opset >= 13 {
            let axes = self.integers(output, "axes", &[1], vec![-1]);
            self.last("Unsqueeze", &[&whole, &axes], &column);
        } else {
            let axes = vec![integers_attribute("axes", vec![-1])];
            self.push("Unsqueeze", &[&whole], &column, axes);
        }
        let is = self.step("Equal", &[&column, &categories], output, "is");
        self.cast(&is, output, DataType::Float);
        Ok(())
    }

    /// A number, or another text, for each text.
    pub(super) fn lookup(&mut self, node: &NodeProto) -> Result<(), String> {
        let (input, output) = (input_of(node)?, output_of(node, 0)?);
        let listed = ["keys_strings", "classes_strings", "cats_strings"];
        let keys = listed
            .into_iter()
            .map(|list| texts(node, list))
            .find(|keys| !keys.is_empty());
        let keys = self.numbers_of(&keys.ok_or("has no texts as keys, expected keys_strings")?);
        let default = |name: &str, other: i64| attribute(node, name).map_or(other, |value| value.i);
        let unknown = default("default_int64", -1);
        let values: Vec<i64> = match node.op_type.as_str() {
            "CategoryMapper" => integers(node, "cats_int64s").to_vec(),
            _ if !texts(node, "classes_strings").is_empty() => (0..keys.len() as i64).collect(),
            _ => integers(node, "values_int64s").to_vec(),
        };
        let floats = numbers(node, "values_floats");
        let others = texts(node, "values_strings");
        let table = if !values.is_empty() {
            let table = self.table(&keys, &values, unknown)?;
            self.integers(output, "table", &[table.len()], table)
        } else if !others.is_empty() {
            let table = self.table(&keys, &self.numbers_of(&others), 0)?;
            self.integers(output, "table", &[table.len()], table)
        } else {
            let unknown = attribute(node, "default_float").map_or(-0.0, |value| value.f);
            let table = self.table(&keys, floats, unknown)?;
            self.floats(output, "table", &[table.len()], table)
        };
        let axis = vec![integer_attribute("axis", 0)];
        self.push("Gather", &[&table, input], output, axis);
        Ok(())
    }

    /// What each number of a text becomes.
    fn table<T: Copy>(&self, keys: &[i64], values: &[T], unknown: T) -> Result<Vec<T>, String> {
        if values.len() != keys.len() {
            let (values, keys) = (values.len(), keys.len());
            return Err(format!("has {values} values for {keys} keys"));
        }
        let mut table = vec![unknown; self.categories.len() + 1];
        for (key, value) in keys.iter().zip(values) {
            table[*key as usize] = *value;
        }
        Ok(table)
    }
}
