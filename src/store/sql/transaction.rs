//! `transaction!`: one transaction on a pool of connections, with the patience of its store.

/// Runs `$body` on a connection in one transaction; `$begin` says of which kind. A transaction that the database took
/// back as a whole is tried again. When no answer to its commit came, the database is asked what became of it, so that a
/// patient store does everything once.
macro_rules! transaction {
    // What only reads needs no mark: reading again does no harm.
    (@mark begin_read, $care:ident, $db:expr) => {
        None
    };
    (@mark begin_write, $care:ident, $db:expr) => {{
        $care.at_home()?;
        if $care.is_patient() { mark($db).await? } else { None }
    }};
    ($store:ident, $begin:ident, $operation:literal, |$db:ident| $body:expr) => {{
        let care = &$store.care;
        let mut tries = care.tries($operation);
        loop {
            let outcome = async {
                let open = async {
                    care.pass($operation, Moment::Begin).await?;
                    let mut transaction = $begin(&$store.pool).await?;
                    let $db = &mut *transaction;
                    let value = $body.await?;
                    let mark = transaction!(@mark $begin, care, &mut *transaction);
                    care.pass($operation, Moment::Commit).await?;
                    Ok::<_, Fault>((transaction, value, mark))
                };
                let (transaction, value, mark) = care.in_time(open).await?;
                let commit = async {
                    transaction.commit().await?;
                    // An answer can be lost only where it can be asked for again.
                    care.pass($operation, Moment::Done).await.or_else(|lost| if mark.is_some() { Err(lost) } else { Ok(()) })
                };
                // Where every commit has an answer, nobody could find out later what became of one that was not awaited.
                let ended = if COMMIT_HAS_AN_ANSWER { care.to_its_end(commit).await } else { care.in_time(commit).await };
                match ended {
                    Err(fault) if fault.connection_lost() && $store.has_committed(mark, &mut tries).await? => Ok(value),
                    ended => ended.map(|()| value),
                }
            }
            .await;
            let fault = match outcome {
                Ok(value) => break Ok(value),
                Err(fault) => fault,
            };
            if let Err(fault) = tries.again(fault).await {
                break Err(fault.during($operation));
            }
        }
    }};
}
