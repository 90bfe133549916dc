use super::*;

/// Labels of events for which all candidates predicted the same.
fn samples(rows: &[(u32, &[f32])]) -> VecDeque<Joined> {
    let joined = |(class, row): &(u32, &[f32])| Joined {
        class: *class,
        served: Candidate::Prior,
        probabilities: row.repeat(Candidate::ALL.len()).into(),
    };
    rows.iter().map(joined).collect()
}

fn meter(window: usize, labels: std::ops::Range<usize>) -> LabelMeter {
    let mut meter = LabelMeter::new(2, window);
    add(&mut meter, labels);
    meter
}

/// Labels that are mostly what was predicted, with another number each.
fn add(meter: &mut LabelMeter, labels: std::ops::Range<usize>) {
    for number in labels {
        let right = 0.6 + (number % 7) as f32 / 100.0;
        let row = match number % 2 {
            0 => [right, 1.0 - right],
            _ => [1.0 - right, right],
        };
        samples(&[((number % 2) as u32, &row)])
            .into_iter()
            .for_each(|joined| meter.add(joined));
    }
}

#[test]
fn a_block_counts_once_the_window_slides_and_the_total_stays() {
    let mut meter = meter(3, 0..10);
    let measured = meter.close(5_000);
    assert_eq!(measured.block.unwrap().labels, 10);
    let window = measured.window.unwrap();
    assert_eq!(window.labels, 3);
    assert!(window.of(Predictor::Served).auc.is_some());
    add(&mut meter, 10..11);
    let measured = meter.close(5_001);
    assert_eq!(measured.block.unwrap().labels, 1);
    let total = measured.total.unwrap();
    assert_eq!((total.labels, total.by_predictor[3].accuracy), (11, 1.0));
    assert_eq!(total.by_predictor[3].auc, None);
    let measured = meter.close(9_000);
    assert_eq!(measured.block, None, "nothing is new");
    assert_eq!(measured.window.unwrap().labels, 3);
}

#[test]
fn a_large_window_is_measured_once_a_second_or_when_a_twentieth_of_it_is_new() {
    let mut meter = meter(1_000, 0..1_000);
    let is_measured = |meter: &mut LabelMeter, labels: usize, clock_ms: i64| {
        add(meter, 0..labels);
        let unseen = meter.sums.unseen;
        meter.close(clock_ms);
        meter.sums.unseen < unseen
    };
    assert!(is_measured(&mut meter, 0, 0));
    assert!(!is_measured(&mut meter, 49, 999));
    assert!(is_measured(&mut meter, 1, 999));
    assert!(is_measured(&mut meter, 1, 1_999));
}

#[test]
fn labels_are_looked_at_after_200_and_whenever_they_have_doubled() {
    let mut meter = LabelMeter::new(2, 250);
    let mut looks = Vec::new();
    for number in 0..40_000 {
        // Of one class: the order stays open.
        samples(&[(0, &[0.6 + (number % 97) as f32 / 1_000.0, 0.3])])
            .into_iter()
            .for_each(|joined| meter.add(joined));
        let check = meter.look_at_order().unwrap();
        looks.extend(check.map(|_| number + 1));
    }
    assert_eq!(looks, [200, 400, 800, 1_600, 3_200, 6_400, 12_800]);
    assert!(
        meter.check_order().unwrap().is_some(),
        "at the end of a file"
    );
}

#[test]
fn an_order_that_is_confirmed_is_not_looked_at_again() {
    let mut meter = meter(1_000, 0..200);
    let check = meter.look_at_order().unwrap().unwrap();
    assert_eq!((check.better, check.unchecked), (None, vec![]));
    add(&mut meter, 200..1_000);
    assert_eq!(meter.look_at_order().unwrap(), None);
}

#[test]
fn two_classes_by_hand() {
    let samples = samples(&[
        (0, &[0.9, 0.1]),
        (0, &[0.4, 0.6]),
        (0, &[0.8, 0.2]),
        (1, &[0.5, 0.5]),
    ]);
    let measured = measure(&samples, 2).unwrap();
    assert_eq!(
        (measured.labels, &measured.proportions[..]),
        (4, &[0.75, 0.25][..])
    );
    let measures = &measured.by_predictor[2];
    // The tie of the last row goes to class 0.
    assert_eq!(measures.accuracy, 0.5);
    assert!((measures.balanced_accuracy - 1.0 / 3.0).abs() < 1e-12);
    let log_loss = -(0.9f64.ln() + 0.4f64.ln() + 0.8f64.ln() + 0.5f64.ln()) / 4.0;
    assert!((measures.log_loss - log_loss).abs() < 1e-6);
    // 0.5 beats 0.1 and 0.2, not 0.6.
    assert!((measures.auc.unwrap() - 2.0 / 3.0).abs() < 1e-12);
    let ratios: Vec<f64> = measures
        .calibration_ratio
        .iter()
        .flatten()
        .copied()
        .collect();
    assert!((ratios[0] - 2.6 / 3.0).abs() < 1e-6 && (ratios[1] - 1.4).abs() < 1e-6);
}

#[test]
fn a_class_that_did_not_occur_is_left_out() {
    let samples = samples(&[(0, &[0.7, 0.2, 0.1]), (1, &[0.1, 0.9, 0.0])]);
    let measures = &measure(&samples, 3).unwrap().by_predictor[0];
    assert_eq!(measures.balanced_accuracy, 1.0);
    assert_eq!(measures.auc, Some(1.0));
    assert_eq!(measures.calibration_ratio[2], None);
    assert!(measure(&VecDeque::new(), 3).is_none());
}

#[test]
fn an_impossible_label_costs_no_more_than_single_precision_can_tell() {
    let impossible = samples(&[(1, &[1.0, 0.0])]);
    let log_loss = measure(&impossible, 2).unwrap().by_predictor[0].log_loss;
    assert!((15.0..17.0).contains(&log_loss), "{log_loss}");
}
