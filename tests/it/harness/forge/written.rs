//! Things that stand on a forge, and which of them kl wrote without a test having looked at them.

/// Things of one kind, oldest first.
#[derive(Debug)]
pub(super) struct Written<T>(Vec<Entry<T>>);

#[derive(Debug)]
struct Entry<T> {
    thing: T,
    unread: bool,
}

impl<T> Default for Written<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Written<T> {
    /// Adds what kl wrote.
    pub(super) fn write(&mut self, thing: T) {
        self.0.push(Entry { thing, unread: true });
    }

    /// Adds what somebody else wrote: no test has to look at it.
    pub(super) fn place(&mut self, thing: T) {
        self.0.push(Entry { thing, unread: false });
    }

    /// The first that is so, as kl changes it.
    pub(super) fn change(&mut self, is: impl Fn(&T) -> bool) -> Option<&mut T> {
        let entry = self.0.iter_mut().find(|entry| is(&entry.thing))?;
        entry.unread = true;
        Some(&mut entry.thing)
    }

    /// Removes all that are so.
    pub(super) fn remove(&mut self, is: impl Fn(&T) -> bool) {
        self.0.retain(|entry| !is(&entry.thing));
    }

    /// All of them.
    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.0.iter().map(|entry| &entry.thing)
    }

    /// The first that is so.
    pub(super) fn find(&self, is: impl Fn(&T) -> bool) -> Option<&T> {
        self.all().find(|thing| is(thing))
    }

    /// What nobody has looked at.
    pub(super) fn unread(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter(|entry| entry.unread).map(|entry| &entry.thing)
    }
}

impl<T: Clone> Written<T> {
    /// All that are so; they count as looked at.
    pub(super) fn look(&mut self, is: impl Fn(&T) -> bool) -> Vec<T> {
        let own = self.0.iter_mut().filter(|entry| is(&entry.thing));
        own.map(|entry| {
            entry.unread = false;
            entry.thing.clone()
        })
        .collect()
    }
}
