// Round five floats by DirectML's TOWARD_INFINITY, with the standard library. rustc --edition 2021 round.rs
use std::io::{Error, Read, Write};
use std::net::TcpStream;

const DESCRIPTOR: &str = concat!(
    r#"{"dialect":"directml","feature_level":"3_0","type":"DML_OPERATOR_ELEMENT_WISE_ROUND","#,
    r#""desc":{"InputTensor":{"DataType":"FLOAT32","Sizes":[5]},"#,
    r#""OutputTensor":{"DataType":"FLOAT32","Sizes":[5]},"RoundingMode":"TOWARD_INFINITY"}}"#
);

fn main() -> Result<(), Error> {
    let url = std::env::var("TENSOR_ROUND_URL").unwrap_or("http://127.0.0.1:8000".into());
    let host = url.trim_start_matches("http://").trim_end_matches('/');
    let x = [-2.5f32, -0.3, 0.5, 1.5, 2.5];
    let body: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();

    let mut stream = TcpStream::connect(host)?;
    write!(
        stream,
        "POST /round HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: {}\r\n\
         Operator-Descriptor: {DESCRIPTOR}\r\n\r\n",
        body.len()
    )?;
    stream.write_all(&body)?;

    // With "Connection: close" the response ends where the connection ends.
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    let end = response.windows(4).position(|w| w == b"\r\n\r\n");
    let (head, body) = response.split_at(end.ok_or(Error::other("no HTTP response"))? + 4);
    let head = String::from_utf8_lossy(head);
    if !head.starts_with("HTTP/1.1 200 ") {
        let problem = String::from_utf8_lossy(body); // application/problem+json
        return Err(Error::other(format!("{}: {problem}", head.lines().next().unwrap())));
    }
    if body.len() != 4 * x.len() {
        return Err(Error::other("a short response"));
    }
    let y = body.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
    println!("{}", y.map(|v| v.to_string()).collect::<Vec<_>>().join(" "));
    Ok(())
}
