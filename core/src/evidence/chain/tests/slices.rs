//! Slices in a segment: beside their parent, in places of their own.

use super::*;
use crate::segment::{MigInstance, Partition};

#[test]
fn slices_stand_beside_their_parent_and_in_places_of_their_own() {
    let part = |parent: &str, compute_instance| Partition {
        parent: GpuUuid::new(parent).unwrap(),
        instance: MigInstance { gpu_instance: 9, compute_instance },
        slices: 1,
        slices_of: 7,
    };
    let slice = |uuid: &str, bus_id: &str, partition: Partition| {
        Block::Gpu(GpuBlock { partition: Some(partition), ..gpu(uuid, bus_id) })
    };
    let parent = || Block::Gpu(gpu("GPU-a", "0:1"));
    let [first, second] = [("MIG-a", 0), ("MIG-b", 1)]
        .map(|(uuid, instance)| slice(uuid, "0:1", part("GPU-a", instance)));
    let blocks = [second.clone(), Block::Host(small_host()), first.clone(), parent()];
    let opened = open_sealed(&seal(draft(), &blocks, &key()).unwrap()).unwrap();
    assert_eq!(opened.blocks[..3], [parent(), first.clone(), second.clone()]);
    assert!(seal(draft(), &[first.clone(), second], &key()).is_ok(), "its parent may be silent");
    let twin = slice("MIG-c", "0:1", part("GPU-a", 0));
    assert_eq!(refusal(draft(), &[first.clone(), twin]), "duplicate_bus_id");
    let elsewhere = slice("MIG-c", "0:2", part("GPU-a", 0));
    assert_eq!(refusal(draft(), &[parent(), elsewhere]), "partition_mismatch");
    let of_another = slice("MIG-c", "0:1", part("GPU-b", 0));
    assert_eq!(refusal(draft(), &[parent(), of_another]), "partition_mismatch");
    let of_a_slice = slice("MIG-c", "0:1", part("MIG-a", 1));
    assert_eq!(refusal(draft(), &[first, of_a_slice]), "partition_mismatch");
}

#[test]
fn eight_gpus_of_seven_slices_each_fill_a_segment() {
    let mut blocks = Vec::new();
    for card in 0..8_u8 {
        let whole = gpu(&format!("GPU-{card}"), &format!("0:{card}"));
        for number in 0..7_u8 {
            let partition = Partition {
                parent: whole.uuid.clone(),
                instance: MigInstance { gpu_instance: 7 + number, compute_instance: 0 },
                slices: 1,
                slices_of: 7,
            };
            let uuid = GpuUuid::new(&format!("MIG-{card}-{number}")).unwrap();
            let slice = GpuBlock { uuid, partition: Some(partition), ..whole.clone() };
            blocks.push(Block::Gpu(slice));
        }
        blocks.push(Block::Gpu(whole));
    }
    blocks.push(Block::Host(small_host()));
    blocks.push(Block::Events(small_events()));
    let opened = open_sealed(&seal(draft(), &blocks, &key()).unwrap()).unwrap();
    assert_eq!(opened.blocks.len(), limits::GPUS + 2);
}
