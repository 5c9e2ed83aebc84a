mod verdict;
#[cfg(test)]
mod simulation;
