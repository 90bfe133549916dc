//! `ostard predict`.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};

use super::{
    client::{Connection, DaemonArgs, Unanswered, block_on},
    format::{Format, FormatArgs, Table},
    rows::Row,
};
use crate::{
    current::ServingMode,
    proto::{
        ClassProbabilities, Mode, PredictRequest, PredictResponse,
        inference_client::InferenceClient,
    },
};

/// Ask a running daemon for predictions. Reads one JSON object per line and prints one answer per line.
///
/// As in events, a line has the input of the model under one of the names probabilities, logits, latent, dense (lists of
/// numbers) or fields (an object). An `id` is printed with the answer.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Predict {
    /// File with the lines to score. Without it, the standard input.
    file: Option<PathBuf>,
    /// Mode of these predictions. Without it, the daemon's own.
    #[arg(long)]
    mode: Option<ServingMode>,
    /// Lines per request. Larger batches are faster, but the first answer waits for the whole batch. At most the daemon's
    /// requests.max_rows.
    #[arg(long, value_name = "LINES", default_value_t = 1)]
    batch: usize,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    daemon: DaemonArgs,
}

const EXAMPLES: &str = "\
Examples:
  echo '{\"latent\": [0.1, -1.2]}' | ostard predict
  echo '{\"id\": \"m1\", \"fields\": {\"subject\": \"win money\", \"length\": 120}}' | ostard predict --mode adapted
  ostard predict mails.jsonl --batch 100 --address ostard.example:50051 --ca ca.pem --token-file token";

impl Predict {
    pub(super) fn execute(self) -> Result<()> {
        let (name, lines): (_, Box<dyn BufRead>) = match &self.file {
            Some(path) => (path.display().to_string(), open(path)?),
            None => ("standard input".into(), Box::new(io::stdin().lock())),
        };
        let mut out = io::stdout().lock();
        block_on(self.answer(&name, lines, &mut out))
    }

    /// Answers line by line. Stops with an error at the first line that cannot be read.
    async fn answer(&self, name: &str, lines: impl BufRead, out: &mut impl Write) -> Result<()> {
        let mut client = self.daemon.connect().await?;
        let mut printer = Printer::new(self.format.choose());
        let mut rows = Vec::new();
        for (number, line) in lines.lines().enumerate() {
            let place = || format!("line {} of {name}", number + 1);
            let line = line.with_context(place)?;
            if line.trim().is_empty() {
                continue;
            }
            rows.push(Row::parse(&line).with_context(place)?);
            if rows.len() >= self.batch {
                self.ask(&mut client, &mut rows, &mut printer, out).await?;
            }
        }
        if !rows.is_empty() {
            self.ask(&mut client, &mut rows, &mut printer, out).await?;
        }
        Ok(())
    }

    /// Asks for the rows that were read, and prints the answers.
    async fn ask(
        &self,
        client: &mut InferenceClient<Connection>,
        rows: &mut Vec<Row>,
        printer: &mut Printer,
        out: &mut impl Write,
    ) -> Result<()> {
        let (ids, inputs): (Vec<_>, Vec<_>) = rows.drain(..).map(|row| (row.id, row.input)).unzip();
        let request = PredictRequest {
            inputs,
            mode: self.mode.map_or(Mode::Unspecified, Mode::from).into(),
        };
        let response = client.predict(request).await.map_err(Unanswered::from)?;
        let text = printer.text(ids, response.into_inner());
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }
}

/// Formats answers; a table keeps its column widths between batches.
enum Printer {
    Table(Table),
    Json,
}

impl Printer {
    fn new(format: Format) -> Self {
        match format {
            Format::Table => {
                let header = ["id", "class", "probability", "all", "version", "mode"];
                Self::Table(Table::new(&header))
            }
            Format::Json => Self::Json,
        }
    }

    /// A line for every prediction.
    fn text(&mut self, ids: Vec<Option<Value>>, response: PredictResponse) -> String {
        match self {
            Self::Json => {
                let lines = answers(ids, response).into_iter();
                lines.map(|line| format!("{line}\n")).collect()
            }
            Self::Table(table) => table.lines(cells(ids, response)),
        }
    }
}

fn cells(ids: Vec<Option<Value>>, response: PredictResponse) -> Vec<Vec<String>> {
    let mode = response.mode().name();
    let version = response.version.unwrap_or_default();
    let row = |(id, prediction): (Option<Value>, ClassProbabilities)| {
        let probabilities = prediction.probabilities;
        let most = probabilities.get(prediction.class as usize);
        let all = probabilities
            .iter()
            .map(|probability| format!("{probability:.3}"));
        vec![
            match id {
                Some(Value::String(id)) => id,
                Some(id) => id.to_string(),
                None => String::new(),
            },
            prediction.class_name,
            format!("{:.3}", most.copied().unwrap_or_default()),
            all.collect::<Vec<_>>().join(" "),
            format!("{}.{}", version.epoch, version.step),
            mode.to_owned(),
        ]
    };
    ids.into_iter().zip(response.predictions).map(row).collect()
}

/// A line for every prediction.
fn answers(ids: Vec<Option<Value>>, response: PredictResponse) -> Vec<Value> {
    let mode = response.mode().name();
    let version = response.version.unwrap_or_default();
    let predictions = response.predictions.into_iter();
    let pairs = ids.into_iter().zip(predictions);
    let line = |(id, prediction): (Option<Value>, ClassProbabilities)| {
        let mut line = json!({
            "class": prediction.class,
            "class_name": prediction.class_name,
            "probabilities": prediction.probabilities,
            "version": {"epoch": version.epoch, "step": version.step},
            "mode": mode,
        });
        if let Some(id) = id {
            line["id"] = id;
        }
        line
    };
    pairs.map(line).collect()
}

fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use ostar_connectors::proto::{Version, input::Kind};
    use tokio::net::TcpListener;
    use tokio_stream::wrappers::TcpListenerStream;
    use tonic::{Request, Response, Status, Streaming, transport::Server};

    use super::*;
    use crate::proto::{
        GetStateRequest, State, WatchStateRequest,
        inference_server::{Inference, InferenceServer},
    };

    /// Answers a latent with itself as probabilities.
    struct Mirror;

    type Never<T> = tokio_stream::Empty<Result<T, Status>>;

    #[tonic::async_trait]
    impl Inference for Mirror {
        type PredictStreamStream = Never<PredictResponse>;
        type WatchStateStream = Never<State>;

        async fn predict(
            &self,
            request: Request<PredictRequest>,
        ) -> Result<Response<PredictResponse>, Status> {
            let request = request.into_inner();
            let mode = request.mode;
            let mirrored = |input: ostar_connectors::proto::Input| match input.kind {
                Some(Kind::Latent(latent)) => Ok(ClassProbabilities {
                    probabilities: latent.values,
                    class: 1,
                    class_name: "spam".into(),
                }),
                _ => Err(Status::invalid_argument("input 0: expected a latent")),
            };
            let predictions = request.inputs.into_iter().map(mirrored);
            Ok(Response::new(PredictResponse {
                predictions: predictions.collect::<Result<_, _>>()?,
                version: Some(Version { epoch: 2, step: 7 }),
                mode,
            }))
        }

        async fn predict_stream(
            &self,
            _: Request<Streaming<PredictRequest>>,
        ) -> Result<Response<Self::PredictStreamStream>, Status> {
            Err(Status::unimplemented("not asked for"))
        }

        async fn get_state(&self, _: Request<GetStateRequest>) -> Result<Response<State>, Status> {
            Err(Status::unimplemented("not asked for"))
        }

        async fn watch_state(
            &self,
            _: Request<WatchStateRequest>,
        ) -> Result<Response<Self::WatchStateStream>, Status> {
            Err(Status::unimplemented("not asked for"))
        }
    }

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        predict: Predict,
    }

    async fn predict(flags: &str, lines: &str) -> Result<Vec<Value>> {
        let text = predict_text(&format!("{flags} --format json"), lines).await?;
        let lines = text.lines().map(serde_json::from_str);
        Ok(lines.collect::<Result<_, _>>()?)
    }

    async fn predict_text(flags: &str, lines: &str) -> Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = Server::builder().add_service(InferenceServer::new(Mirror));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        let line = format!("predict --address {address}{flags}");
        let predict = Line::try_parse_from(line.split(' '))?.predict;
        let mut out = Vec::new();
        let done = predict
            .answer("mails.jsonl", lines.as_bytes(), &mut out)
            .await;
        done?;
        Ok(String::from_utf8(out)?)
    }

    #[tokio::test]
    async fn a_table_has_one_header_and_a_row_for_every_line() {
        let lines = "{\"id\": \"a\", \"latent\": [0.25, 0.75]}\n{\"latent\": [0, 1]}\n";
        let text = predict_text(" --format table --mode prior", lines).await;
        let expected = "\
id  class  probability  all          version  mode
a   spam   0.750        0.250 0.750  2.7      prior
    spam   1.000        0.000 1.000  2.7      prior
";
        assert_eq!(text.unwrap(), expected);
    }

    #[tokio::test]
    async fn every_line_is_answered_in_order_whatever_the_batch() {
        let lines = "{\"id\": \"a\", \"latent\": [0.25, 0.75]}\n\n{\"latent\": [0.5, 0.5]}\n{\"latent\": [1, 0]}\n";
        for flags in ["", " --batch 2", " --batch 100"] {
            let answers = predict(&format!("{flags} --mode adapted"), lines)
                .await
                .unwrap();
            assert_eq!(answers.len(), 3);
            let first = json!({
                "id": "a", "class": 1, "class_name": "spam", "probabilities": [0.25, 0.75],
                "version": {"epoch": 2, "step": 7}, "mode": "adapted",
            });
            assert_eq!(answers[0], first);
            assert_eq!(answers[2]["probabilities"], json!([1.0, 0.0]));
            assert_eq!(answers[1].get("id"), None);
        }
    }

    #[tokio::test]
    async fn a_line_that_cannot_be_read_is_named() {
        let lines = "{\"latent\": [0.5, 0.5]}\n{\"latant\": [1, 0]}\n";
        let refused = predict("", lines).await.unwrap_err();
        let text = format!("{refused:#}");
        assert!(
            text.starts_with("line 2 of mails.jsonl: unknown field `latant`"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_refusal_is_passed_on_with_its_own_exit_code() {
        let refused = predict("", "{\"dense\": [1]}").await.unwrap_err();
        assert!(refused.is::<Unanswered>());
        assert_eq!(
            refused.to_string(),
            "the daemon refused: input 0: expected a latent (InvalidArgument)"
        );
    }
}
