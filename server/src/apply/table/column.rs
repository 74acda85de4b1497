//! Which column holds what: by name, in English or Chinese, or as somebody says.

use csv::StringRecord;
use leasewatch_core::id::clean_text;
use leasewatch_core::time::Zone;

use super::NoTable;

/// What a table holds, one a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    /// Leases.
    Leases,
    /// Billing sessions.
    Sessions,
    /// Time that the tenant takes out of the account.
    Stops,
    /// What the provider's own records say.
    Records,
}

/// A field, whether it has to be there, and names that its column may have.
type Field = (&'static str, bool, &'static [&'static str]);

const LEASES: &[Field] = &[
    ("name", true, &["name", "lease", "rental", "租用单", "租用单名称", "名称"]),
    ("provider", true, &["provider", "vendor", "服务商", "供应商", "云厂商"]),
    ("gpu_model", true, &["gpu_model", "gpu model", "gpu", "model", "gpu型号", "卡型", "型号"]),
    ("gpu_count", true, &["gpu_count", "gpu count", "gpus", "count", "gpu数量", "卡数", "数量"]),
    (
        "starts_at",
        true,
        &["starts_at", "start", "start time", "from", "开始时间", "起始时间", "开通时间"],
    ),
    ("ends_at", false, &["ends_at", "end", "end time", "to", "结束时间", "到期时间"]),
    ("price", false, &["price", "unit price", "price per gpu-hour", "单价", "价格"]),
    ("price_unit", false, &["price_unit", "price unit", "per", "计价单位"]),
    ("currency", false, &["currency", "币种", "货币"]),
    ("product", false, &["product", "instance type", "产品", "规格", "实例规格"]),
    ("kind", false, &["kind", "type", "租用方式", "计费方式", "付费方式"]),
    ("region", false, &["region", "地域", "区域", "机房"]),
    ("instance", false, &["instance", "instance id", "实例", "实例id"]),
    ("machine", false, &["machine", "machine id", "机器", "机器编号"]),
    ("order", false, &["order", "order id", "order number", "订单", "订单号"]),
    ("auto_release_at", false, &["auto_release_at", "auto release", "自动释放时间"]),
    ("tax", false, &["tax", "tax rate", "税率"]),
    ("zone", false, &["zone", "time zone", "billing zone", "时区", "计费时区"]),
    ("billing_unit", false, &["billing_unit", "billing unit", "计费单位", "计费粒度"]),
    ("stop_ends_billing", false, &["stop_ends_billing", "stop ends billing", "关机不计费"]),
    ("labels", false, &["labels", "tags", "标签"]),
];

const SESSIONS: &[Field] = &[
    ("lease", true, &["lease", "name", "rental", "租用单", "租用单名称"]),
    (
        "starts_at",
        true,
        &["starts_at", "start", "start time", "from", "开始时间", "开机时间", "起始时间"],
    ),
    ("ends_at", true, &["ends_at", "end", "end time", "to", "结束时间", "关机时间"]),
];

const STOPS: &[Field] = &[
    ("lease", true, &["lease", "name", "rental", "租用单", "租用单名称"]),
    ("starts_at", true, &["starts_at", "start", "start time", "from", "开始时间", "停机时间"]),
    ("ends_at", true, &["ends_at", "end", "end time", "to", "结束时间", "恢复时间"]),
    ("kind", false, &["kind", "type", "类型"]),
    ("clause", false, &["clause", "exclusion", "条款"]),
    ("reason", false, &["reason", "note", "原因", "备注"]),
];

const RECORDS: &[Field] = &[
    ("lease", true, &["lease", "name", "rental", "租用单", "租用单名称"]),
    ("starts_at", true, &["starts_at", "start", "start time", "from", "开始时间"]),
    ("ends_at", true, &["ends_at", "end", "end time", "to", "结束时间", "恢复时间"]),
    ("cause", true, &["cause", "state", "原因", "状态"]),
    ("source", true, &["source", "url", "来源"]),
    ("text", true, &["text", "message", "note", "正文", "说明"]),
];

/// Words of cells that mean a name of the written form.
const VALUES: &[(&str, &str, &str)] = &[
    ("kind", "自有", "own"),
    ("kind", "包年包月", "reserved"),
    ("kind", "预付费", "reserved"),
    ("kind", "按量", "on_demand"),
    ("kind", "按量付费", "on_demand"),
    ("kind", "on-demand", "on_demand"),
    ("kind", "on demand", "on_demand"),
    ("kind", "竞价", "spot"),
    ("kind", "停机", "stopped"),
    ("kind", "关机", "stopped"),
    ("kind", "维护", "maintenance"),
    ("kind", "其他", "other"),
    ("cause", "失联", "connectivity"),
    ("cause", "磁盘", "disk"),
    ("cause", "重启", "reboot"),
    ("cause", "掉卡", "gpu_lost"),
    ("cause", "换卡", "gpu_replaced"),
    ("cause", "缺卡", "gpu_count"),
    ("cause", "硬件", "hardware"),
    ("cause", "高速网络", "fabric"),
    ("cause", "降频", "throttle"),
    ("price_unit", "卡时", "gpu_hour"),
    ("price_unit", "gpu-hour", "gpu_hour"),
    ("price_unit", "gpu hour", "gpu_hour"),
    ("price_unit", "月", "month"),
    ("billing_unit", "秒", "second"),
    ("billing_unit", "分钟", "minute"),
    ("billing_unit", "小时", "started_hour"),
    ("currency", "人民币", "CNY"),
    ("currency", "元", "CNY"),
    ("currency", "美元", "USD"),
];

/// What the columns of a file hold.
#[derive(Debug, Clone)]
pub struct Mapping {
    pub(super) kind: TableKind,
    pub(super) zone: Zone,
    said: Vec<(&'static str, String)>,
}

impl Mapping {
    /// A table of this kind; `said` are texts such as `name=Instance`, `zone` is that of times that
    /// have none.
    ///
    /// # Errors
    /// In words, when a field does not exist.
    pub fn parse(kind: TableKind, said: &[String], zone: Zone) -> Result<Self, String> {
        let fields = fields(kind);
        let one = |text: &String| {
            let (name, column) = text.split_once('=').unwrap_or((text, ""));
            let known = fields.iter().find(|(field, ..)| *field == name.trim());
            let names = || fields.iter().map(|(field, ..)| *field).collect::<Vec<_>>().join(", ");
            let (field, ..) = known.ok_or_else(|| {
                format!("{:?} is no field; there are {}", clean_text(name, 40), names())
            })?;
            Ok::<_, String>((*field, column.trim().to_owned()))
        };
        let said = said.iter().filter(|text| !text.trim().is_empty()).map(one);
        Ok(Self { kind, zone, said: said.collect::<Result<_, _>>()? })
    }

    /// Fields with the places of their columns.
    pub(super) fn columns(
        &self,
        header: &StringRecord,
    ) -> Result<Vec<(&'static str, usize)>, NoTable> {
        let place = |names: &dyn Fn(&str) -> bool| header.iter().position(names);
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for (field, is_needed, names) in fields(self.kind) {
            let said = self.said.iter().find(|(name, _)| name == field);
            let column = match said {
                Some((_, column)) => {
                    let at = place(&|name: &str| name.trim() == column);
                    Some(at.ok_or_else(|| NoTable::NoColumn(column.clone()))?)
                }
                None => names
                    .iter()
                    .find_map(|known| place(&|name: &str| name.trim().to_lowercase() == **known)),
            };
            match column {
                Some(column) => found.push((*field, column)),
                None if *is_needed => missing.push(*field),
                None => {}
            }
        }
        if missing.is_empty() {
            return Ok(found);
        }
        let names: Vec<_> = header.iter().map(|name| clean_text(name, 40)).collect();
        Err(NoTable::Columns { missing: missing.join(", "), found: names.join(", ") })
    }
}

fn fields(kind: TableKind) -> &'static [Field] {
    match kind {
        TableKind::Leases => LEASES,
        TableKind::Sessions => SESSIONS,
        TableKind::Stops => STOPS,
        TableKind::Records => RECORDS,
    }
}

/// A cell's text as the written form has it.
pub(super) fn value(field: &str, text: &str) -> String {
    let text = text.trim();
    let same = |(of, word, _): &&(&str, &str, &str)| *of == field && text.to_lowercase() == *word;
    VALUES.iter().find(same).map_or_else(|| text.to_owned(), |(_, _, name)| (*name).to_owned())
}
