//! What a person with a browser, or a probe, sees.

use serde_json::Value;

use crate::support::*;

async fn get(world: &World, path: &str) -> (u16, String) {
    let answer = within("HTTP", reqwest::get(world.http(path))).await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

async fn json(world: &World, path: &str) -> Value {
    let client = reqwest::Client::new();
    let answer = client.get(world.http(path)).header("accept", "application/json").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.json().await.unwrap()
}

#[tokio::test]
async fn the_list_is_a_line_per_breaker_for_people_and_json_on_accept() {
    let mut world = World::start().await;
    let (code, text) = get(&world, "/breakers").await;
    assert_eq!((code, text.contains("no breaker exists yet")), (200, true), "{text}");
    world.report(failures("t/quiet", 3)).await;
    world.trip("t/loud/operation").await;
    let (_, text) = get(&world, "/breakers").await;
    let lines: Vec<_> = text.lines().collect();
    assert!(
        lines[0].starts_with("t/loud/operation  OPEN: retry in 10 s (failure rate 100 % >= 50 %"),
        "{text}"
    );
    assert_eq!(lines[1], "t/quiet           CLOSED: 3 of 20 calls, 3 failed");

    let (_, some) = get(&world, "/breakers?pattern=t/*").await;
    assert_eq!(some, "t/quiet  CLOSED: 3 of 20 calls, 3 failed\n");
    assert!(get(&world, "/breakers?pattern=x/*").await.1.contains("no breaker that exists matches"));
    assert_eq!(get(&world, "/breakers?pattern=a%20b").await.0, 400);
    assert_eq!(get(&world, "/breakers?state=OPEN").await.0, 400);

    let list = json(&world, "/breakers").await;
    assert_eq!(list["total"], 2);
    let open = &list["breakers"][0];
    assert_eq!((&open["name"], &open["state"]), (&"t/loud/operation".into(), &"OPEN".into()));
    assert_eq!(open["remaining_ms"], 10_000);
    assert_eq!(open["last_transition"]["to"], "STATE_OPEN");
    assert_eq!(list["breakers"][1]["progress"], "CLOSED: 3 of 20 calls, 3 failed");
}

#[tokio::test]
async fn one_breaker_explains_itself() {
    let mut world = World::start().await;
    world.trip("t/a").await;
    world.advance(61_000);
    let (code, text) = get(&world, "/breakers/t/a").await;
    assert_eq!(code, 200);
    for part in
        ["HALF_OPEN", "the wait of 10 s is over", "team-test", "test rev 1", "failure rate 100 %", "lasting"]
    {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let one = json(&world, "/breakers/t/a").await;
    assert_eq!((&one["state"], &one["policy"]["owner"]), (&"HALF_OPEN".into(), &"team-test".into()));
    assert_eq!(one["incidents"][0]["closed"], Value::Null);
    assert_eq!(one["incidents"][0]["opened"]["to"], "STATE_OPEN");
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_404_with_the_nearest_and_looking_makes_none() {
    let mut world = World::start().await;
    world.acquire("t/quote").await;
    let (code, text) = get(&world, "/breakers/t/qoute").await;
    assert_eq!((code, text.contains("did you mean \"t/quote\"?")), (404, true), "{text}");
    assert_eq!(get(&world, "/breakers/t/%20").await.0, 400);
    assert_eq!(get(&world, &format!("/breakers/{}", "x".repeat(10_000))).await.0, 400);
    assert_eq!(json(&world, "/breakers").await["total"], 1);
    let (code, text) = get(&world, "/elsewhere").await;
    assert_eq!((code, text.contains("/breakers")), (404, true));
}

#[tokio::test]
async fn alive_and_ready_are_told_and_nothing_can_be_changed() {
    let world = World::start().await;
    assert_eq!(get(&world, "/healthz").await, (200, "alive\n".into()));
    assert_eq!(get(&world, "/readyz").await, (200, "ready\n".into()));
    assert_eq!(get(&world, "/metrics").await.0, 200);
    for path in ["/healthz", "/readyz", "/metrics", "/breakers", "/breakers/t/a"] {
        let answer = reqwest::Client::new().post(world.http(path)).send().await.unwrap();
        assert_eq!(answer.status(), 405, "{path}");
    }
}
