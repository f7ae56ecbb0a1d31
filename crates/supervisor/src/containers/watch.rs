//! Follows the engine's events, and follows them again when it has been away. Then every instance looks at its
//! container, because what became of it meanwhile was told to nobody.

use super::pause::Pause;
use super::shared::Shared;
use crate::limits::ENGINE_PAUSE;
use crate::runtime::RuntimeEvent;
use pilotlight_containers::EngineError;
use std::sync::Arc;

pub(super) async fn watch(shared: Arc<Shared>) {
    let mut pause = Pause::new(&ENGINE_PAUSE);
    let mut was_away = false;
    loop {
        let ended = follow(&shared, &mut was_away, &mut pause).await;
        if !was_away {
            let reason = ended.map_or_else(|error| error.to_string(), |()| "it ended the stream of events".to_owned());
            shared.tell(RuntimeEvent::Away { reason }).await;
            was_away = true;
        }
        pause.wait().await;
    }
}

async fn follow(shared: &Shared, was_away: &mut bool, pause: &mut Pause) -> Result<(), EngineError> {
    let mut events = shared.engine.events().await?;
    *pause = Pause::new(&ENGINE_PAUSE);
    if std::mem::replace(was_away, false) {
        shared.tell(RuntimeEvent::Back).await;
    }
    shared.taken().values().for_each(|look| look.notify_one());
    shared.sweep().await;
    while let Some(event) = events.next().await? {
        if event.is_end()
            && let Some(look) = shared.taken().get(&event.id)
        {
            look.notify_one();
        }
    }
    Ok(())
}
