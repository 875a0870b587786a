//! Plain columns for terminals and logs.

use super::style;

/// Rows under a head line, columns as wide as they need to be. Cells may hold colours.
#[must_use]
pub fn columns(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.len()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(visible(cell));
        }
    }
    let mut text = line(&head.iter().map(style::dim).collect::<Vec<_>>(), &widths);
    for row in rows {
        text.push_str(&line(row, &widths));
    }
    text
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let mut text = String::new();
    for (position, (cell, width)) in cells.iter().zip(widths).enumerate() {
        text.push_str(cell);
        if position + 1 < cells.len() {
            text.push_str(&" ".repeat(width.saturating_sub(visible(cell)) + 2));
        }
    }
    format!("{}\n", text.trim_end())
}

/// The number of characters that a cell shows, without colour sequences.
fn visible(cell: &str) -> usize {
    anstream::adapter::strip_str(cell).to_string().chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_do_not_push_columns_apart() {
        let text = columns(&["A", "B"], &[vec![style::good("xyz"), "1".into()], vec!["x".into(), "2".into()]]);
        assert_eq!(anstream::adapter::strip_str(&text).to_string(), "A    B\nxyz  1\nx    2\n");
    }
}
