use quorate_sim::{run::run_seed, world::Settings};
fn main() {
    let args: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    for seed in args[0]..args.get(1).copied().unwrap_or(args[0] + 1) {
        let mut settings = Settings::of_seed(seed);
        if let Some(&calls) = args.get(2) {
            settings.calls = calls;
            settings.crashes_min = 0;
            settings.partitions_min = 0;
        }
        let report = run_seed(settings);
        println!("{report}\n   {:?}", report.sometimes);
    }
}
