"""The loops around a line of elements, as LLVM assembly; the line is a function of the module."""

from __future__ import annotations

#: Elements of a line, which are computed at once.
LANES = 32

#: Converts ``count`` elements at ``source`` into ``target``, which is separate memory or begins
#: there. The elements after the last whole line are copied to the stack and converted there.
CONVERT = """
define internal void @line(ptr %from, ptr %to) alwaysinline {{
{body}
  ret void
}}

define void @convert(ptr %source, ptr %target, i64 %count) {{
entry:
  %operands = alloca [{line_in} x i8]
  %results = alloca [{line_out} x i8]
  %whole = lshr i64 %count, {lanes_log}
  %some = icmp ne i64 %whole, 0
  br i1 %some, label %lines, label %last
lines:
  %at = phi i64 [0, %entry], [%next, %lines]
  %in = mul i64 %at, {line_in}
  %out = mul i64 %at, {line_out}
  %from = getelementptr i8, ptr %source, i64 %in
  %to = getelementptr i8, ptr %target, i64 %out
{prefetch}
  call void @line(ptr %from, ptr %to)
  %next = add i64 %at, 1
  %more = icmp ult i64 %next, %whole
  br i1 %more, label %lines, label %last
last:
  %done_in = mul i64 %whole, {line_in}
  %done_out = mul i64 %whole, {line_out}
  %rest = and i64 %count, {lanes_mask}
  %in_bits = mul i64 %rest, {width_in}
  %in_more = add i64 %in_bits, 7
  %in_bytes = lshr i64 %in_more, 3
  %out_bits = mul i64 %rest, {width_out}
  %out_more = add i64 %out_bits, 7
  %out_bytes = lshr i64 %out_more, 3
  %last_from = getelementptr i8, ptr %source, i64 %done_in
  %last_to = getelementptr i8, ptr %target, i64 %done_out
  store [{line_in} x i8] zeroinitializer, ptr %operands
  call void @llvm.memcpy.p0.p0.i64(ptr %operands, ptr %last_from, i64 %in_bytes, i1 false)
  call void @line(ptr %operands, ptr %results)
  call void @llvm.memcpy.p0.p0.i64(ptr %last_to, ptr %results, i64 %out_bytes, i1 false)
  ret void
}}
"""

#: Computes ``rows`` rows of ``length`` elements each, with the parameters of :data:`ONE` or
#: :data:`EACH`. A row's elements after its last whole line are copied to the stack.
ROWS = """
define internal void @{name}.row(ptr %source, ptr %target, i64 %count, ptr %scales, ptr %points) {{
entry:
  %operands = alloca [{line_in} x i8]
  %results = alloca [{line_out} x i8]
  %last_scales = alloca {floats}
  %last_points = alloca {integers}
{one}
  %whole = lshr i64 %count, {lanes_log}
  %some = icmp ne i64 %whole, 0
  br i1 %some, label %lines, label %end
lines:
  %at = phi i64 [0, %entry], [%next, %lines]
  %in = mul i64 %at, {line_in}
  %out = mul i64 %at, {line_out}
  %from = getelementptr i8, ptr %source, i64 %in
  %to = getelementptr i8, ptr %target, i64 %out
{prefetch}
{each}
  call void @line(ptr %from, ptr %to, {floats} %scale, {integers} %point)
  %next = add i64 %at, 1
  %more = icmp ult i64 %next, %whole
  br i1 %more, label %lines, label %end
end:
  %rest = and i64 %count, {lanes_mask}
  %has_rest = icmp ne i64 %rest, 0
  br i1 %has_rest, label %last, label %return
last:
  %done_in = mul i64 %whole, {line_in}
  %done_out = mul i64 %whole, {line_out}
  %in_bytes = mul i64 %rest, {itemsize_in}
  %out_bytes = mul i64 %rest, {itemsize_out}
  %last_from = getelementptr i8, ptr %source, i64 %done_in
  %last_to = getelementptr i8, ptr %target, i64 %done_out
  store [{line_in} x i8] zeroinitializer, ptr %operands
  call void @llvm.memcpy.p0.p0.i64(ptr %operands, ptr %last_from, i64 %in_bytes, i1 false)
{rest}
  call void @line(ptr %operands, ptr %results, {floats} %last_scale, {integers} %last_point)
  call void @llvm.memcpy.p0.p0.i64(ptr %last_to, ptr %results, i64 %out_bytes, i1 false)
  br label %return
return:
  ret void
}}

define void @{name}(
  ptr %source, ptr %target, i64 %rows, i64 %length, ptr %scales, ptr %points
) {{
entry:
  %bytes_in = mul i64 %length, {itemsize_in}
  %bytes_out = mul i64 %length, {itemsize_out}
  br label %loop
loop:
  %row = phi i64 [0, %entry], [%next, %loop]
  %in = mul i64 %row, %bytes_in
  %out = mul i64 %row, %bytes_out
  %parameter = mul i64 %row, {parameters_a_row}
  %from = getelementptr i8, ptr %source, i64 %in
  %to = getelementptr i8, ptr %target, i64 %out
  %scale = getelementptr float, ptr %scales, i64 %parameter
  %point = getelementptr i32, ptr %points, i64 %parameter
  call void @{name}.row(ptr %from, ptr %to, i64 %length, ptr %scale, ptr %point)
  %next = add i64 %row, 1
  %more = icmp ult i64 %next, %rows
  br i1 %more, label %loop, label %return
return:
  ret void
}}
"""

#: One scale and one zero point for each row.
ONE = """
  %first_scale = load float, ptr %scales
  %first_point = load i32, ptr %points
  %scale_lane = insertelement {floats} poison, float %first_scale, i64 0
  %point_lane = insertelement {integers} poison, i32 %first_point, i64 0
  %scale = shufflevector {floats} %scale_lane, {floats} poison, <{lanes} x i32> zeroinitializer
  %point = shufflevector {integers} %point_lane, {integers} poison, <{lanes} x i32> zeroinitializer
"""
ONE_REST = """
  %last_scale = bitcast {floats} %scale to {floats}
  %last_point = bitcast {integers} %point to {integers}"""

#: One scale and one zero point for each column, the same in every row.
EACH = """
  %element = mul i64 %at, {lanes}
  %scales_here = getelementptr float, ptr %scales, i64 %element
  %points_here = getelementptr i32, ptr %points, i64 %element
  %scale = load {floats}, ptr %scales_here, align 4
  %point = load {integers}, ptr %points_here, align 4"""
EACH_REST = """
  %done = mul i64 %whole, {lanes}
  %scales_left = getelementptr float, ptr %scales, i64 %done
  %points_left = getelementptr i32, ptr %points, i64 %done
  %parameter_bytes = mul i64 %rest, 4
  store {floats} zeroinitializer, ptr %last_scales
  store {integers} zeroinitializer, ptr %last_points
  call void @llvm.memcpy.p0.p0.i64(
    ptr %last_scales, ptr %scales_left, i64 %parameter_bytes, i1 false)
  call void @llvm.memcpy.p0.p0.i64(
    ptr %last_points, ptr %points_left, i64 %parameter_bytes, i1 false)
  %last_scale = load {floats}, ptr %last_scales
  %last_point = load {integers}, ptr %last_points"""
