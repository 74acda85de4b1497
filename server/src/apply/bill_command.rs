//! `leasewatch-server bills` and `leasewatch-server prices`.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use leasewatch_core::id::Slug;
use leasewatch_core::money::Money;

use super::bills::{self, NotStored};
use super::command::{bytes_of, on_database, tenant_key};
use super::entered::Entered;
use super::{prices, spreadsheet};
use crate::clock::Clock;
use crate::config::{ServeFlags, ServeOptions};
use crate::store::audit::Who;
use crate::store::lease::Written;
use crate::store::{Scope, bill, price, provider};

/// Bills of providers.
#[derive(Debug, Subcommand)]
pub enum BillsCommand {
    /// Lists bills of every tenant.
    List(Box<ServeFlags>),
    /// Imports a bill as CSV, and says what differs from terms, sessions and proven downtime.
    Import(Box<ImportBill>),
}

/// A bill that is to be imported.
#[derive(Debug, Args)]
pub struct ImportBill {
    /// The bill; `-` is standard input.
    file: PathBuf,
    /// The tenant that pays.
    #[arg(long, value_name = "SLUG", default_value = "default")]
    tenant: Slug,
    /// Whose bill it is.
    #[arg(long, value_name = "SLUG")]
    provider: Slug,
    /// What columns hold: starts, ends, key, quantity, unit, rate, amount, currency; and how cells
    /// are meant: unit_else, currency_else, dates, timezone, with_tax. What is not said is as in the
    /// provider's last bill, else by the names of columns.
    #[arg(long, value_name = "FIELD=COLUMN", num_args = 1.., value_delimiter = ',')]
    map: Vec<String>,
    /// Store the lines that are right also when others are refused.
    #[arg(long)]
    partial: bool,
    #[command(flatten)]
    serve: ServeFlags,
}

/// Price tables.
#[derive(Debug, Subcommand)]
pub enum PricesCommand {
    /// Lists price tables.
    List(Box<ServeFlags>),
    /// Imports a table of offers as CSV. Known tables are recognised by their header.
    Import(Box<ImportPrices>),
}

/// A price table that is to be imported.
#[derive(Debug, Args)]
pub struct ImportPrices {
    /// The table; `-` is standard input.
    file: PathBuf,
    /// Whose offers they are, where the rows do not say.
    #[arg(long, value_name = "SLUG", default_value = "")]
    provider: String,
    /// The currency of its prices.
    #[arg(long, value_name = "CODE", default_value = "USD")]
    currency: String,
    /// Columns of a table that is not known, such as `gpu=Model,count=GPUs,on_demand=Price`.
    #[arg(long, value_name = "FIELD=COLUMN", default_value = "")]
    map: String,
    #[command(flatten)]
    serve: ServeFlags,
}

/// Runs a command about bills.
///
/// # Errors
/// What is wrong, in words for the operator.
pub async fn bills(command: BillsCommand) -> anyhow::Result<()> {
    match command {
        BillsCommand::List(serve) => {
            let options = ServeOptions::resolve(*serve)?;
            on_database(&options, async |db| {
                let mut tx = db.begin(Scope::Operator).await?;
                let rows = bill::list(&mut tx).await?;
                tx.commit().await?;
                for row in rows {
                    let (number, lines) = (row.key.number(), row.lines);
                    let period = row.period.map_or("-".to_owned(), |period| {
                        format!("{} to {}", period.start, period.end)
                    });
                    let (tenant, provider, file) = (&row.tenant, &row.provider, &row.file_name);
                    println!("{number}  {tenant}  {provider}  {period}  {lines} lines  {file}");
                }
                Ok(())
            })
            .await
        }
        BillsCommand::Import(asked) => import_bill(*asked).await,
    }
}

async fn import_bill(asked: ImportBill) -> anyhow::Result<()> {
    let (name, bytes) = bytes_of(&asked.file)?;
    let sheet = spreadsheet::look(&bytes).map_err(|why| anyhow::anyhow!("{name}: {why}"))?;
    let options = ServeOptions::resolve(asked.serve)?;
    on_database(&options, async |db| {
        let tenant = tenant_key(&db, &asked.tenant).await?;
        let mut tx = db.begin(Scope::Tenant(tenant)).await?;
        let found = provider::by_slug(&mut tx, &asked.provider).await?;
        let provider = found.with_context(|| format!("there is no provider {}", asked.provider))?;
        let mut entered = bills::suggested(&sheet.header);
        if let Some(kept) = bill::mapping(&mut tx, (tenant, provider.key)).await? {
            entered.0.extend(bills::from_kept(&kept, &sheet.header).0);
        }
        said(&mut entered, &asked.map)?;
        let file = asked.file.file_name().map(|name| name.to_string_lossy().into_owned());
        let sent = bills::Sent {
            provider: asked.provider.as_str(),
            file_name: file.as_deref().unwrap_or("bill.csv"),
            text: &sheet.text,
            entered: &entered,
            partial: asked.partial,
        };
        let written = Written { at: Clock::system().now(), by: None, reason: None };
        let key = match bills::store(&mut tx, tenant, sent, (written, &Who::command())).await? {
            Ok(key) => key,
            Err(why) => {
                tx.rollback().await?;
                bail!("nothing was stored\n{}", in_words(&name, &why, &sheet.header));
            }
        };
        let row = bill::by_key(&mut tx, key).await?.context("the bill is gone")?;
        let compared = bills::compared(&mut tx, &row).await?.context("amounts are out of range")?;
        tx.commit().await?;
        println!("bill {}: {} lines, {} refused", key.number(), row.lines, row.refused);
        for difference in &compared.comparison.differences {
            let line = difference.line.map_or("-".to_owned(), |line| line.to_string());
            let lease = difference.lease.as_ref().map_or("-", |lease| lease.as_str());
            println!("{}  line {line}  {lease}  {}", difference.kind.name(), difference.amount);
        }
        let sum = |amounts: &mut dyn Iterator<Item = Money>| {
            amounts.map(|amount| amount.to_string()).collect::<Vec<_>>().join(", ")
        };
        let (billed, due) = (&compared.comparison.billed, &compared.comparison.expected);
        println!("billed {}, due by the terms {}", sum(&mut billed.iter()), sum(&mut due.iter()));
        Ok(())
    })
    .await
}

fn said(entered: &mut Entered, map: &[String]) -> anyhow::Result<()> {
    for text in map {
        let (field, value) = text.split_once('=').unwrap_or((text, ""));
        let field = field.trim();
        let is_column = bills::COLUMNS.iter().any(|(name, ..)| *name == field);
        if !is_column && !bills::SETTINGS.contains(&field) {
            bail!("{field:?} is no field of a bill");
        }
        entered.0.insert(field.to_owned(), value.trim().to_owned());
    }
    Ok(())
}

fn in_words(name: &str, why: &NotStored, header: &[String]) -> String {
    match why {
        NotStored::Fields(wrong) => {
            let lines = wrong.iter().map(|wrong| format!("{}: {}", wrong.field, wrong.matter));
            let lines = lines.collect::<Vec<_>>().join("\n");
            format!("{lines}\nuse --map FIELD=COLUMN; the file has: {}", header.join(", "))
        }
        NotStored::File(fault) => format!("{name}: {fault}"),
        NotStored::Lines(refused) => {
            let line = |row: &leasewatch_core::cost::bill::RefusedLine| {
                let column = row.column.as_deref().unwrap_or("-");
                format!("{name}:{}: {column}: {}", row.line, row.fault)
            };
            refused.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    }
}

/// Runs a command about price tables.
///
/// # Errors
/// What is wrong, in words for the operator.
pub async fn prices(command: PricesCommand) -> anyhow::Result<()> {
    match command {
        PricesCommand::List(serve) => {
            let options = ServeOptions::resolve(*serve)?;
            on_database(&options, async |db| {
                let mut tx = db.begin(Scope::Operator).await?;
                let rows = price::list(&mut tx).await?;
                tx.commit().await?;
                for row in rows {
                    let (number, at, offers) = (row.key.number(), row.imported_at, row.offers);
                    let (file, refused) = (&row.file_name, row.refused);
                    println!("{number}  {at}  {offers} offers  {refused} refused  {file}");
                }
                Ok(())
            })
            .await
        }
        PricesCommand::Import(asked) => import_prices(*asked).await,
    }
}

async fn import_prices(asked: ImportPrices) -> anyhow::Result<()> {
    let (name, bytes) = bytes_of(&asked.file)?;
    let sheet = spreadsheet::look(&bytes).map_err(|why| anyhow::anyhow!("{name}: {why}"))?;
    let options = ServeOptions::resolve(asked.serve)?;
    on_database(&options, async |db| {
        let file = asked.file.file_name().map(|name| name.to_string_lossy().into_owned());
        let sent = prices::Sent {
            provider: &asked.provider,
            file_name: file.as_deref().unwrap_or("prices.csv"),
            text: &sheet.text,
            currency: &asked.currency,
            columns: &asked.map,
        };
        let written = Written { at: Clock::system().now(), by: None, reason: None };
        let mut tx = db.begin(Scope::Ingest).await?;
        let (key, table) = match prices::store(&mut tx, sent, (written, &Who::command())).await? {
            Ok(stored) => stored,
            Err(why) => {
                tx.rollback().await?;
                bail!("nothing was stored\n{name}: {why}");
            }
        };
        tx.commit().await?;
        for refused in &table.refused {
            eprintln!("{name}:{}: {}", refused.line, refused.fault);
        }
        let schema = table.schema.map_or("named columns", |schema| schema.name());
        let (offers, repeated) = (table.offers.len(), table.duplicates);
        let refused = table.refused.len();
        println!(
            "price table {} ({schema}): {offers} offers, {repeated} repeated, {refused} refused",
            key.number()
        );
        Ok(())
    })
    .await
}
