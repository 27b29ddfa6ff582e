// Slots of the cache that hold four tokens of a sequence, whose first page is entry `first_page` of
// `page_tables`.

fn slots_of(first_page: u32, token: vec4u) -> vec4u {
  let page = vec4u(first_page) + token / params.page_size;
  let pages = vec4u(
    page_tables[page.x], page_tables[page.y], page_tables[page.z], page_tables[page.w]);
  return pages * params.page_size + token % params.page_size;
}
