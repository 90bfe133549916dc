//! Starts the threads of a pipeline, part by part.

use std::sync::Arc;

use anyhow::Result;
use crossbeam_channel::{Sender, bounded};
use ostar_connectors::{
    event::{Chunk, Decoder, InputRows, TimeLimit},
    kafka::{Outputs, Reader, RejectLimits},
};

use super::{
    EventSource, Learning, PipelineSetup, Publisher, WAITING_CHUNKS,
    commits::Commits,
    emission::Emission,
    flags::PipelineFlags,
    ingest::{Decoding, Ingest},
    label_intake::LabelIntake,
    label_thread::LabelThread,
    learner_thread::LearnerThread,
    request_thread::RequestThread,
    sample_ingest::{SampleIngest, SampleReading},
    sampling::SampleSink,
    scored::{FrozenScoring, ScoredChunk},
    scoring::Scoring,
    source_watch::SourceWatch,
    threads::Threads,
};
use crate::{
    class_order::ClassOrder,
    config::{Config, WhenBehind},
    control::Request,
};

/// Orders that may wait for the learner. They are rare and given by people.
const WAITING_ORDERS: usize = 4;

/// Labels that may wait between two blocks before the learner takes them over.
const WAITING_LABELS: usize = 4_096;

/// Name of the file of parked outputs in `checkpoints.folder`.
const PARKED_FILE: &str = "parked.jsonl";

/// Starts the parts one by one.
pub(super) struct Starting<'a> {
    pub(super) setup: PipelineSetup<'a>,
    pub(super) flags: Arc<PipelineFlags>,
    pub(super) threads: Threads,
}

impl Starting<'_> {
    /// Starts the threads that learn. Returns where they take chunks and orders.
    pub(super) fn learner(
        &mut self,
        learning: Learning,
    ) -> Result<(Sender<Arc<ScoredChunk>>, Sender<Request>)> {
        let Learning {
            mut block_learner,
            checkpoints,
        } = learning;
        let config = self.setup.config;
        let labels_read = match &config.labels.topic {
            Some(_) => {
                let (sender, messages) = bounded(WAITING_LABELS);
                let resume = block_learner.position().labels.clone();
                let waits = config.learner.when_behind == WhenBehind::Wait;
                let intake = LabelIntake::new(messages, &config.labels, resume.clone(), waits);
                block_learner.set_labels(intake);
                Some(LabelThread::new(&self.setup, resume, sender)?)
            }
            None => None,
        };
        let requests = RequestThread::new(&self.setup, block_learner.requested())?;
        let (to_learner, chunks) = bounded(WAITING_CHUNKS);
        let (learner_orders, orders) = bounded(WAITING_ORDERS);
        let learner = LearnerThread {
            block_learner,
            checkpoints,
            chunks,
            orders,
            when_behind: config.learner.when_behind,
            nice: config.learner.nice,
            class_order: ClassOrder::new(self.setup.bundle, &self.setup.health),
            flags: Arc::clone(&self.flags),
        };
        self.threads.start("learner", move || learner.run())?;
        if let Some(labels) = labels_read {
            let flags = Arc::clone(&self.flags);
            self.threads.start("labels", move || labels.run(&flags))?;
        }
        if let Some(requests) = requests {
            let flags = Arc::clone(&self.flags);
            self.threads
                .start("label requests", move || requests.run(&flags))?;
        }
        Ok((to_learner, learner_orders))
    }

    /// Starts the threads that read events, score them and write outputs.
    pub(super) fn scorer(&mut self, events: EventSource, sink: SampleSink) -> Result<()> {
        let config = self.setup.config;
        let samples = match sink {
            SampleSink::Memory(_) => None,
            SampleSink::Topic(_) => config.samples.topic.as_deref(),
        };
        let (description, classes) = (self.setup.bundle.description(), self.setup.bundle.classes());
        let metrics = &self.setup.publisher.metrics;
        let patience = config.kafka.patience.get();
        let (to_emission, chunks) = bounded(WAITING_CHUNKS);
        let ingest = Ingest {
            reader: events.reader,
            decoding: Decoding {
                decoder: Decoder::new(&config.events, &description.input, classes)?,
                limits: RejectLimits::new(&config.dead_letters),
                dead_letter_bytes: config.dead_letters.max_bytes,
                emitted: events.emitted.get(),
                metrics: Arc::clone(metrics),
            },
            watch: SourceWatch::new(patience, &self.setup.health, metrics),
            chunk: Chunk::new(InputRows::new(&description.input, classes)),
            opened: None,
            chunks: to_emission,
            flags: Arc::clone(&self.flags),
            health: Arc::clone(&self.setup.health),
            metrics: Arc::clone(metrics),
        };
        let current = &self.setup.publisher.current;
        let emission = Emission {
            frozen: FrozenScoring::new(
                current.load().snapshot.model().clone(),
                self.setup.bundle.inputs().is_some(),
            ),
            scoring: Scoring::new(Arc::clone(current), Arc::clone(metrics), classes),
            outputs: open_outputs(config, samples)?,
            flags: Arc::clone(&self.flags),
            emitted: events.emitted.get(),
            commits: Commits::start(
                move |offsets| events.committer.commit_and_wait(offsets),
                events.emitted,
                Arc::clone(metrics),
            )?,
            classes: description.classes.clone(),
            patience,
            health: Arc::clone(&self.setup.health),
            metrics: Arc::clone(metrics),
            progress: Default::default(),
        };
        self.threads
            .start("emission", move || emission.run(&chunks, sink))?;
        self.threads.start("ingest", move || ingest.run())
    }

    /// Starts the thread that reads samples.
    pub(super) fn samples(
        &mut self,
        reader: Reader,
        chunks: Sender<Arc<ScoredChunk>>,
    ) -> Result<()> {
        let Publisher {
            current, metrics, ..
        } = &self.setup.publisher;
        let model = current.load().snapshot.model().clone();
        let times = TimeLimit::new(&self.setup.config.events);
        let ingest = SampleIngest {
            reader,
            samples: SampleReading::new(model, self.setup.bundle, times, Arc::clone(metrics)),
            watch: SourceWatch::new(
                self.setup.config.kafka.patience.get(),
                &self.setup.health,
                metrics,
            ),
            opened: None,
            chunks,
            flags: Arc::clone(&self.flags),
            metrics: Arc::clone(metrics),
        };
        self.threads.start("samples", move || ingest.run())
    }
}

/// Opens the outputs. What is refused for good goes to a file next to the checkpoints, unless another place is set.
fn open_outputs(config: &Config, samples: Option<&str>) -> Result<Outputs> {
    let mut parked = config.parked.clone();
    if parked.topic.is_none()
        && parked.file.is_none()
        && let Some(folder) = &config.checkpoints.folder
    {
        parked.file = Some(folder.join(PARKED_FILE));
    }
    Ok(Outputs::open(
        &config.kafka,
        &config.predictions,
        &config.dead_letters,
        &parked,
        &config.outputs,
        samples,
    )?)
}
