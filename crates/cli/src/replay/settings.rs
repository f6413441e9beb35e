//! Settings of several tasks of a recording at once: `tasks."rustc-*".policy=SCHED_IDLE`.

use runyard_outcome::Failure;
use runyard_workload::import::Imported;
use runyard_workload::setting::Setting;

/// Replaces each setting of `tasks."BEGIN*"` by one for each task whose name begins so.
pub(super) fn expanded(settings: &[Setting], imported: &Imported) -> Result<Vec<Setting>, Failure> {
    let mut all = Vec::new();
    for setting in settings {
        match begin(setting) {
            None => all.push(setting.clone()),
            Some(begin) => all.extend(each(setting, begin, imported)?),
        }
    }
    Ok(all)
}

/// Returns how the names of the tasks begin, if the setting is for several.
fn begin(setting: &Setting) -> Option<&str> {
    match setting.path().segments() {
        [tasks, name, _, ..] if &*tasks.key == "tasks" => name.key.strip_suffix('*'),
        _ => None,
    }
}

fn each(setting: &Setting, begin: &str, imported: &Imported) -> Result<Vec<Setting>, Failure> {
    let rest = &setting.path().segments()[2..];
    let rest = rest.iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
    let names = imported.tasks.iter().map(|task| &task.name);
    let names: Vec<_> = names.filter(|name| name.starts_with(begin)).collect();
    if names.is_empty() {
        return Err(Failure::input(format!(
            "--set {setting}: no task's name begins with {begin:?}"
        )));
    }
    let one = |name: &String| {
        let name = serde_json::Value::from(name.as_str());
        Setting::new(&format!("tasks.{name}.{rest}"), setting.value()).map_err(Failure::input)
    };
    names.into_iter().map(one).collect()
}
