use quorate_sim::{
    run::run_seed,
    world::{Settings, World},
};
fn main() {
    let args: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    for seed in args[0]..args.get(1).copied().unwrap_or(args[0] + 1) {
        let mut settings = Settings::of_seed(seed);
        if let Some(&calls) = args.get(2) {
            settings.calls = calls;
            settings.crashes_min = 5;
            settings.partitions_min = 2;
        }
        if std::env::var("DUMP").is_ok() {
            let mut world = World::new(settings);
            let rest = world.run();
            if let Ok(o) = std::env::var("OBJECT") { let o: u16 = o.parse().unwrap();
                let (a, b): (u64, u64) = (std::env::var("FROM").unwrap().parse().unwrap(), std::env::var("TO").unwrap().parse().unwrap());
                for r in world.history().records() { if r.call.object.0 == o && r.invoked_us >= a && r.invoked_us < b { println!("{} {:?} {:?} {:?}", r.invoked_us, r.connection, r.call.action, r.fate); } } continue; }
            println!("rest {rest} now {} calls {}", world.now_us(), world.history().records().len());
            for node in world.nodes() {
                let Some(host) = node.host() else {
                    println!("down");
                    continue;
                };
                println!(
                    "{:?} dir {:?} suspects {:?} {:?}",
                    host.settings().node,
                    host.directory().map(|d| d.version),
                    host.peers().filter(|&n| host.is_suspected(n)).collect::<Vec<_>>(),
                    host.counters()
                );
                for g in host.groups() {
                    println!("  {:?} {:?} {:?}", g.id(), g.state, g.replica.status());
                }
            }
            continue;
        }
        let report = run_seed(settings);
        println!("{report}\n   {:?}", report.sometimes);
    }
}
